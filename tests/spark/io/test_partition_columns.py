"""Partition columns as expressions over the name of a row's file: right for every file, and decided before files are opened."""

import datetime as dt
import itertools
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.io import partition_columns
from airflow_delta.spark.io.partition_columns import NO_FILE, HashedFiles

STRANGE = ["", " ", ",", "\x1f0\x1f", "\x1f", "ä\n'\\", "a/b=%20", "null"]


@given(st.sets(st.text(max_size=20), min_size=1, max_size=200))
def test_every_path_is_found_in_its_slot(found):
    paths = sorted(found)
    files = HashedFiles.of(paths)
    assert len(files.starts) == (1 << files.low_bits) + 1
    assert sorted(file for file in files.files if file != NO_FILE) == [*range(len(paths))]
    for slot, (file, hashed) in enumerate(zip(files.files, files.hashes, strict=True)):
        if file != NO_FILE:
            bucket, high = hashed % (1 << files.low_bits), (hashed % (1 << 32)) >> files.low_bits
            start, end = files.starts[bucket], files.starts[bucket + 1]
            assert slot == start + high % (end - start)


def test_a_table_of_ten_thousand_paths_is_small():
    files = HashedFiles.of([f"file:/lake/t/part-{number:05d}.parquet" for number in range(10_000)])
    assert len(files.files) < 40_000


def test_paths_that_collide_are_found_one_by_one(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(partition_columns, "spark_hash", lambda texts, _: pa.array([7] * len(texts), pa.uint32()))
    assert HashedFiles.of(["a", "b"]) is None
    rows = write(tmp_path / "t", p=pa.array(["x", None, "z"]))
    assert DeltaTable.forPath(spark, str(tmp_path / "t")).toDF().toArrow().sort_by("id").to_pylist() == rows.to_pylist()


def write(table, **columns):
    rows = pa.table({"id": pa.array(range(len(next(iter(columns.values())))), pa.int64()), **columns})
    write_deltalake(str(table), rows, partition_by=[*columns])
    return rows


@pytest.mark.parametrize(
    "values",
    [
        pa.array([*STRANGE, None]),
        pa.array([-1, None, 7], pa.int32()),
        pa.array([dt.date(1000, 1, 1), dt.date(9999, 12, 31), None]),
        pa.array(
            [dt.datetime(1900, 1, 1, 0, 0, 0, 1, dt.UTC), dt.datetime(2020, 2, 29, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")
        ),
        pa.array([dt.datetime(2020, 2, 29, 1, tzinfo=dt.UTC).replace(tzinfo=None), None], pa.timestamp("us")),
        pa.array([Decimal("0.50"), Decimal("12345.60"), None], pa.decimal128(9, 2)),
        pa.array([0.1, 2.5, None]),
        pa.array([True, False, None]),
        pa.array([None, None], pa.int64()),
    ],
    ids=str,
)
def test_values_of_every_type_are_those_of_the_log(spark, tmp_path, values):
    write(tmp_path / "t", p=values, one=pa.array([1] * len(values), pa.int32()))
    in_log = DeltaLog.for_table(str(tmp_path / "t")).snapshot().to_arrow().read_all()
    shown = DeltaTable.forPath(spark, str(tmp_path / "t")).toDF().toArrow()
    assert shown.sort_by("id").to_pylist() == in_log.sort_by("id").to_pylist()


def test_many_files_have_their_own_values(spark, tmp_path):
    numbers = range(300)
    write(tmp_path / "t", p=pa.array([f"v{number}" for number in numbers]), q=pa.array([number % 7 for number in numbers]))
    found = DeltaTable.forPath(spark, str(tmp_path / "t")).toDF().sort("id").collect()
    assert [tuple(row) for row in found] == [(number, f"v{number}", number % 7) for number in numbers]


@pytest.mark.parametrize(
    "condition", ["p = 'p1'", "upper(p) IN ('P1', 'P9') AND n < 3", "p > 'p0' AND id >= 0", "n = 1 OR p = 'p1'"]
)
def test_a_condition_on_partition_columns_opens_no_other_file(spark, tmp_path, condition):
    root = tmp_path / "t"
    pairs = [*itertools.product(("p0", "p1"), (1, 2))]
    write(root, p=pa.array([p for p, _ in pairs]), n=pa.array([n for _, n in pairs], pa.int64()))
    wanted = {number for number, (p, n) in enumerate(pairs) if p == "p1" or (condition.startswith("n = 1") and n == 1)}
    for file in DeltaLog.for_table(str(root)).snapshot().files().to_pylist():
        value = dict(file["partition_values"])
        if pairs.index((value["p"], int(value["n"]))) not in wanted:
            Path(root, file["path"]).write_bytes(b"no Parquet")
    shown = DeltaTable.forPath(spark, str(root)).toDF()
    assert {row.id for row in shown.where(condition).select("id").collect()} == wanted
    assert {row.id for row in spark.sql(f"SELECT id FROM {{shown}} WHERE {condition}", shown=shown).collect()} == wanted
    with pytest.raises(Exception, match=r"not a Parquet file|FAILED_READ_FILE|FOOTER"):
        shown.collect()
