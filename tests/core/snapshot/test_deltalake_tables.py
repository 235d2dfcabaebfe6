"""Tables that delta-rs wrote, at every version, against what delta-rs reads there."""

import datetime as dt
import json
import shutil
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core import DeltaLog
from airflow_delta.core.log.file_names import commit_path

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "p": pa.string(),
        "d": pa.date32(),
        "price": pa.decimal128(10, 2),
        "at": pa.timestamp("us", "UTC"),
        "x": pa.float64(),
        "ok": pa.bool_(),
        "raw": pa.binary(),
        "tags": pa.list_(pa.string()),
        "pair": pa.struct({"a": pa.int32(), "b": pa.string()}),
        "map": pa.map_(pa.string(), pa.int64()),
    }
)


def row(number):
    return {
        "id": number,
        "p": [None, "a b", "ü/%", "x=y"][number % 4],
        "d": dt.date(2013, 1, 1) + dt.timedelta(days=number % 3),
        "price": Decimal(number) / 4 if number % 5 else None,
        "at": dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=number * 1_234_567),
        "x": number / 3 if number % 7 else float("nan"),
        "ok": bool(number % 2),
        "raw": bytes([number % 256]),
        "tags": [None, [], ["t", None]][number % 3],
        "pair": {"a": number, "b": None} if number % 2 else None,
        "map": [("k", number)],
    }


def rows(first, last):
    return pa.Table.from_pylist([row(number) for number in range(first, last)], SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Fourteen versions: appends, an overwrite, deletes, a compaction, checkpoints at 4 and 9."""
    path = str(tmp_path_factory.mktemp("delta-rs") / "table")
    for version in range(5):
        write_deltalake(path, rows(version * 20, version * 20 + 20), mode="append", partition_by=["p", "d"])
    DeltaTable(path).create_checkpoint()
    DeltaTable(path).delete("id % 10 = 3")
    DeltaTable(path).optimize.compact()
    write_deltalake(path, rows(500, 540), mode="overwrite", partition_by=["p", "d"])
    write_deltalake(path, rows(600, 620), mode="append", partition_by=["p", "d"])
    DeltaTable(path).update({"x": "1.5"}, predicate="p = 'a b'")
    DeltaTable(path).create_checkpoint()
    for version in range(4):
        write_deltalake(path, rows(700 + version, 701 + version), mode="append", partition_by=["p", "d"])
    return path


def comparable(table):
    """Rows as text in order: NaN is equal to itself there."""
    return sorted(map(repr, table.select(SCHEMA.names).cast(SCHEMA).to_pylist()))


def test_every_version_is_read_equal(table):
    latest = DeltaTable(table).version()
    assert latest >= 12
    log = DeltaLog.for_table(table)
    for version in range(latest + 1):
        theirs, ours = DeltaTable(table, version=version), log.snapshot(version)
        assert sorted(ours.files()["path"].to_pylist()) == sorted(pa.table(theirs.get_add_actions())["path"].to_pylist())
        assert comparable(ours.to_arrow().read_all()) == comparable(theirs.to_pyarrow_table())


def test_its_checkpoints_are_used(table):
    assert DeltaLog.for_table(table).snapshot().segment.checkpoint.version == DeltaTable(table).version() - 4


def test_the_latest_version_needs_no_commit_below_its_checkpoint(table, tmp_path):
    shutil.copytree(table, tmp_path / "copy")
    whole = DeltaLog.for_table(table).snapshot()
    for version in range(whole.segment.checkpoint.version + 1):
        (tmp_path / "copy" / commit_path(version)).unlink()
    left = DeltaLog.for_table(str(tmp_path / "copy")).snapshot()
    assert comparable(left.to_arrow().read_all()) == comparable(whole.to_arrow().read_all())


def test_statistics_are_kept(table):
    for version in (3, DeltaTable(table).version()):
        files = DeltaLog.for_table(table).snapshot(version).files()
        theirs = pa.table(DeltaTable(table, version=version).get_add_actions(flatten=True))
        counts = dict(zip(theirs["path"].to_pylist(), theirs["num_records"].to_pylist(), strict=True))
        stats = zip(files["path"].to_pylist(), files["stats"].to_pylist(), strict=True)
        assert {path: json.loads(text)["numRecords"] for path, text in stats} == counts
