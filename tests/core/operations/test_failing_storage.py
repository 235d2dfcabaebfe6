"""Clone, conversion, manifests and statistics on storage that fails anywhere: all or nothing, and a repeated call finishes."""

import contextlib
import itertools
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.operations.convert import convert
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.core.faults.faulty_log_store import MOMENTS, Fault, FaultyLogStore, NoAnswerError

FOR_EVER = 1 << 30


def parquet_files(root):
    for number in range(3):
        target = root / f"p={number}" / "f.parquet"
        target.parent.mkdir(parents=True)
        pq.write_table(pa.table({"n": [number]}), target)
    return root


def table(root):
    parquet_files(root)
    DeltaLog.convert(str(root), partition_schema={"p": "string"}, statistics=False)
    return root


def rows(root):
    """The rows and the statistics of the table; None if there is no table."""
    log = DeltaLog.for_table(str(root))
    if not log.exists():
        return None
    snapshot = log.snapshot()
    return (
        sorted(snapshot.to_arrow().read_all()["n"].to_pylist()),
        sorted(map(str, snapshot.files()["stats"].to_pylist())),
    )


def run_convert(log):
    convert(
        log, partition_schema={"p": "string"}, infer_partitions=False, statistics=True, properties={}, origin=Origin(token="t")
    )


def run_clone(log):
    source = DeltaLog.for_table(log.table_uri.replace("/t-", "/source-"))
    with contextlib.suppress(DeltaError) if log.exists() else contextlib.nullcontext():
        source.shallow_clone(log, mode="ignore")


OPERATIONS = {
    "convert": (parquet_files, run_convert),
    "clone": (lambda root: table(root.with_name(root.name.replace("t-", "source-"))), run_clone),
    "manifests": (table, lambda log: log.generate_manifests()),
    "statistics": (table, lambda log: log.recompute_statistics()),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_failure_of_any_operation_leaves_all_or_nothing_and_a_repeated_call_finishes(tmp_path, name):
    prepare, run = OPERATIONS[name]
    prepare(tmp_path / "t-done")
    before = rows(tmp_path / "t-done")
    counting = FaultyLogStore(LocalLogStore(str(tmp_path / "t-done")))
    run(DeltaLog(counting))
    after = rows(tmp_path / "t-done")
    assert len(counting.operations) > 3
    for number, moment in itertools.product(range(len(counting.operations)), MOMENTS):
        lasts = FOR_EVER if number % 2 else 1
        root = tmp_path / "t-disturbed"
        prepare(root)
        store = FaultyLogStore(LocalLogStore(str(root)), Fault(number, moment, lasts))
        with contextlib.suppress(DeltaError, NoAnswerError):
            run(DeltaLog(store))
        assert rows(root) in (before, after), (name, number, moment, lasts)
        run(DeltaLog.for_table(str(root)))
        assert rows(root) == after, (name, number, moment, lasts)
        if name == "manifests":
            assert len(list((root / "_symlink_format_manifest").rglob("manifest"))) == 3
        for directory in ("t-disturbed", "source-disturbed"):
            shutil.rmtree(tmp_path / directory, ignore_errors=True)


def test_statistics_say_the_same_after_a_lost_answer(tmp_path):
    table(tmp_path / "t")
    log = DeltaLog.for_table(str(tmp_path / "t"))
    log.recompute_statistics()
    assert all(json.loads(stats)["numRecords"] == 1 for stats in log.refresh().files()["stats"].to_pylist())
    assert log.recompute_statistics().changed == 0
