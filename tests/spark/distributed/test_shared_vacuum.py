"""A vacuum of a table in S3 that Spark's workers share, beside one that the driver does alone."""

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import UnsupportedStorageError, VacuumIncompleteError
from airflow_delta.core.operations.vacuum_executor import LocalVacuumExecutor
from airflow_delta.core.statements import WriteMode
from airflow_delta.spark.distributed import vacuum as shared_vacuum
from airflow_delta.spark.distributed.vacuum import SparkVacuumExecutor, shared_directories
from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures
from tests.spark.stores.conftest import S3Table

OTHERS = ["other/_delta_log/00000000000000000000.json", "other/f.parquet"]
ODD = ["p=a%20b ü#?/f 1%.parquet", "_hidden/x", ".crc", "deep/er/still/x", *OTHERS]


@pytest.fixture
def s3_table(spark, s3):  # noqa: F811 - the fixture
    """A table of three files, one of them overwritten, and things beside them."""
    table = S3Table(spark, s3)
    table.write_rows("SELECT id, id % 2 AS p FROM range(4)", partition_by=("p",))
    table.write_rows("SELECT 9L AS id, 0L AS p")
    for path in ODD:
        table.log.store.write(path, b"x")
    return table


def sorted_files(listed):
    return sorted(map(tuple, (row.values() for row in listed.to_pylist())))


def test_workers_find_every_file_that_the_driver_finds(spark, s3_table):
    snapshot = s3_table.log.snapshot()
    by_driver = sorted_files(LocalVacuumExecutor().list_files(snapshot))
    assert sorted_files(SparkVacuumExecutor(spark, many=1).list_files(snapshot)) == by_driver
    assert {path for path, *_ in by_driver} > set(ODD)


@pytest.mark.slow
def test_the_driver_lists_where_arrow_learns_no_times(spark, s3_table):
    options = s3_table.store.options  # with what only s3fs knows
    options = {**options, "client_kwargs": {**options.get("client_kwargs", {}), "verify": False}}
    snapshot = DeltaLog.for_table(s3_table.uri, options).snapshot()
    assert sorted_files(SparkVacuumExecutor(spark, many=1).list_files(snapshot)) == sorted_files(
        LocalVacuumExecutor().list_files(snapshot)
    )


@pytest.mark.slow
def test_a_shared_vacuum_deletes_what_any_other_would(spark, s3_table):
    s3_table.write_rows("SELECT 5L AS id, 1L AS p", mode=WriteMode.OVERWRITE)
    alone = s3_table.log.vacuum(0, dry_run=True, enforce_retention=False)
    together = s3_table.log.vacuum(0, dry_run=False, enforce_retention=False, executor=SparkVacuumExecutor(spark, many=1))
    assert sorted(together.paths.to_pylist()) == sorted(alone.paths.to_pylist())
    assert together.files == alone.files == 5
    kept = set(s3_table.files())
    assert kept == {*s3_table.live(), "_hidden/x", ".crc", *OTHERS}
    assert s3_table.by_deltalake() == [(5, 1)]


def test_the_driver_deletes_where_workers_lack_the_package(spark, s3_table, monkeypatch):
    def raising(*_):
        raise UnsupportedStorageError(uri="s3://x", detail="s3fs is not installed")

    monkeypatch.setattr(shared_vacuum, "typed_worker_errors", raising)
    SparkVacuumExecutor(spark, many=1).delete(s3_table.log.store, pa.array(["deep/er/still/x"]))
    assert "deep/er/still/x" not in s3_table.files()


@pytest.mark.slow
def test_files_that_workers_could_not_delete_are_reported(spark, s3_table, monkeypatch):
    class Failing:
        def __init__(self, **_):
            pass

        def __call__(self, files):
            failed = {"example": ["a"], "number": pa.array([len(files)], pa.int64()), "detail": ["no"], "is_refused": [False]}
            yield pa.record_batch(failed)

    monkeypatch.setattr(shared_vacuum, "Deleter", Failing)
    with pytest.raises(VacuumIncompleteError) as caught:
        SparkVacuumExecutor(spark, many=1).delete(s3_table.log.store, pa.array(["a", "b", "c"]))
    assert (caught.value.deleted, caught.value.left, caught.value.example, caught.value.detail) == (0, 3, "a", "no")


def test_small_tables_and_local_ones_are_left_to_the_driver(spark, write_rows, table):
    write_rows("SELECT id FROM range(3)")
    snapshot = DeltaLog.for_table(table).snapshot()
    assert sorted_files(SparkVacuumExecutor(spark, many=1).list_files(snapshot)) == sorted_files(
        LocalVacuumExecutor().list_files(snapshot)
    )


def test_directories_are_opened_until_there_are_enough_of_them(tmp_path):
    for path in ("a/1/x", "a/2/y", "b/3/z", "b/w", "v"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()

    def shared(wanted):
        files, directories = shared_directories(pafs.LocalFileSystem(), str(tmp_path), wanted)
        return sorted(file.base_name for file in files), sorted(
            directory.removeprefix(f"{tmp_path}/") for directory in directories
        )

    assert shared(1) == shared(2) == (["v"], ["a", "b"])
    assert shared(3) == (["v", "w"], ["a/1", "a/2", "b/3"])
    assert shared(4) == (["v", "w", "x", "y", "z"], [])
