"""Deep clones whose files Spark's workers copy."""

import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable as OtherTable

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import MissingDataFileError, UnsupportedStorageError
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.spark import DeltaTable
from airflow_delta.spark.distributed import file_copy
from airflow_delta.spark.distributed.file_copy import SparkFileCopier
from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures
from tests.core.operations.file_copier_contract import FileCopierContract
from tests.golden_tables import TABLES
from tests.spark.stores.conftest import S3Table


class TestSparkFileCopier(FileCopierContract):
    @pytest.fixture
    def copier(self, spark):
        return SparkFileCopier(spark)


@pytest.fixture
def marked(tmp_path):
    """A table of Spark with deletion vectors in files."""
    return DeltaLog.for_table(str(shutil.copytree(TABLES / "dv_basic" / "table", tmp_path / "a marked table")))


def rows_of(log):
    return Counter(map(str, log.snapshot().to_arrow().read_all().to_pylist()))


def test_workers_copy_a_table_from_disk_to_s3_and_back(spark, marked, s3, tmp_path):  # noqa: F811 - the fixture
    there = DeltaLog.for_table(f"{s3.uri}/lake/a clone", s3.options)
    expected, snapshot = rows_of(marked), marked.snapshot()
    done = marked.deep_clone(there, copier=SparkFileCopier(spark))
    assert (done.copied_files, done.copied_bytes) == (len(snapshot.files()), done.bytes)
    assert rows_of(there) == expected
    back = DeltaLog.for_table(str(tmp_path / "back"))
    there.deep_clone(back, copier=SparkFileCopier(spark))
    shutil.rmtree(marked.table_uri)
    assert rows_of(back) == expected
    assert Counter(map(str, map(tuple, DeltaTable.forPath(spark, back.table_uri).toDF().collect()))).total() == expected.total()


@pytest.mark.slow
def test_workers_copy_between_tables_of_one_bucket(spark, s3):  # noqa: F811 - the fixture
    source = S3Table(spark, s3)
    source.write_rows("SELECT /*+ REPARTITION(4) */ id, id % 2 AS p FROM range(40)", partition_by=("p",))
    rows = source.by_core()
    clone = S3Table(spark, s3, "lake/the clone")
    source.log.deep_clone(clone.log, copier=SparkFileCopier(spark))
    source.log.store.delete(source.files())
    assert clone.by_deltalake() == clone.by_core() == rows
    assert len(clone.files()) == len(clone.live())


def test_a_job_that_fails_leaves_no_table_and_no_file(spark, marked, s3, tmp_path, monkeypatch):  # noqa: F811 - the fixture
    # In one task: another one may still write a file when those of the clone are deleted, and leave it to a vacuum.
    monkeypatch.setattr(file_copy, "tasks_of_files", lambda _, files: np.zeros(len(files), np.int64))
    marked.store.delete([marked.snapshot().files()["path"][-1].as_py()])
    for target in (DeltaLog.for_table(f"{s3.uri}/clone", s3.options), DeltaLog.for_table(str(tmp_path / "clone"))):
        with pytest.raises(MissingDataFileError):
            marked.deep_clone(target, copier=SparkFileCopier(spark))
        assert not target.exists()
        assert [file.path for file in target.store.list_all()] == []
    assert not (tmp_path / "clone").exists()


def test_a_storage_that_workers_do_not_reach_is_refused_before_anything_is_copied(spark, marked):
    target = DeltaLog(InMemoryLogStore("memory://clone"))
    with pytest.raises(UnsupportedStorageError, match="copies files by Arrow in Spark's workers"):
        marked.deep_clone(target, copier=SparkFileCopier(spark))
    assert not target.exists()
    with pytest.raises(UnsupportedStorageError):
        SparkFileCopier(spark).copy(InMemoryLogStore("hdfs://lake/t"), marked.store, "folder", pa.table({}))


@pytest.mark.slow
def test_a_clone_of_a_clone_of_workers_is_read_by_deltalake(spark, table, write_rows, tmp_path):
    write_rows("SELECT id, CAST(id % 3 AS STRING) || ' ü%' AS p FROM range(9)", partition_by=("p",))
    DeltaLog.for_table(table).deep_clone(str(tmp_path / "first"), copier=SparkFileCopier(spark))
    shutil.rmtree(table)
    DeltaLog.for_table(str(tmp_path / "first")).deep_clone(str(tmp_path / "second"), copier=SparkFileCopier(spark))
    shutil.rmtree(tmp_path / "first")
    found = OtherTable(tmp_path / "second").to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [{"id": number, "p": f"{number % 3} ü%"} for number in range(9)]
