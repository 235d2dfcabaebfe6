"""Tables that only Hadoop reaches, from a write to a read: a view of Hadoop's over a local directory stands for HDFS."""

import uuid

import pytest

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.statements import DeleteStatement, SqlSource, WriteMode, WriteStatement
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.hadoop.hadoop_log_store import HadoopLogStore
from airflow_delta.spark.hadoop.table_log import lies_on_hadoop, table_log
from airflow_delta.spark.io.scan import read_table
from tests.spark.needs import looks_into_the_jvm

pytestmark = looks_into_the_jvm


@pytest.fixture
def view(spark, tmp_path):
    """A URI under which only the session's Hadoop finds the directory ``tmp_path``."""
    name = f"view-{uuid.uuid4().hex}"
    key = f"fs.viewfs.mounttable.{name}.link./data"
    spark.sparkContext._jsc.hadoopConfiguration().set(key, f"file://{tmp_path}")
    yield f"viewfs://{name}/data"
    spark.sparkContext._jsc.hadoopConfiguration().unset(key)


@pytest.mark.parametrize(
    ("uri", "is_so"),
    [
        ("hdfs://name-node:8020/lake/t", True),
        ("HDFS:///lake/t", True),
        ("viewfs://cluster/t", True),
        ("/lake/t", False),
        ("file:///lake/t", False),
        ("s3://bucket/t", False),
        ("abfss://c@account.dfs.core.windows.net/t", False),
    ],
)
def test_hdfs_and_views_of_it_are_hadoops_and_nothing_else_is(uri, is_so):
    assert lies_on_hadoop(uri) is is_so


def test_other_tables_keep_their_stores(spark, table):
    assert isinstance(table_log(spark, table).store, LocalLogStore)


def test_a_table_on_hadoop_takes_no_storage_options(spark, view):
    with pytest.raises(UnsupportedStorageError, match="no storage options"):
        table_log(spark, f"{view}/table", {"key": "secret"})


def test_a_table_that_only_hadoop_reaches_is_written_read_and_kept_up(spark, view, tmp_path, reference_rows):
    uri = f"{view}/table"

    def write_rows(query, **statement):
        return run(spark, JobSpec(statement=WriteStatement(table=uri, source=SqlSource(query), **statement)))

    for query in ("SELECT id, id % 2 AS p FROM range(4)", "SELECT 10L AS id, 0L AS p"):
        document = write_rows(query, partition_by=("p",))
        assert document.error is None
    document = write_rows("SELECT 11L AS id, 1L AS p", mode=WriteMode.REPLACE_WHERE, replace_where="p = 1")
    assert (document.error, document.outcome.version) == (None, 2)
    log = table_log(spark, uri)
    assert isinstance(log.store, HadoopLogStore)
    log.checkpoint()
    expected = [(0, 0), (2, 0), (10, 0), (11, 1)]
    assert reference_rows() == expected  # by others, who know the directory behind the view
    snapshot = table_log(spark, uri).snapshot()
    assert [tuple(row) for row in read_table(spark, snapshot).orderBy("id").collect()] == expected
    assert sorted(row["id"] for row in snapshot.to_arrow().read_all().to_pylist()) == [0, 2, 10, 11]
    assert (tmp_path / "table" / "_delta_log" / "_last_checkpoint").exists()
    done = log.vacuum(0, dry_run=False, enforce_retention=False)
    assert done.files == 1


def test_what_fails_leaves_no_file(spark, view, tmp_path):
    statement = WriteStatement(table=f"{view}/table", source=SqlSource("SELECT 1 AS id"), expect=("id > 1",))
    document = run(spark, JobSpec(statement=statement))
    assert document.error["code"] == "DELTA_EXPECTATION_FAILED"
    assert list((tmp_path / "table").rglob("*.parquet")) == []


def test_rows_that_workers_would_rewrite_are_refused_by_name_where_they_lack_the_native_library(spark, view, tmp_path):
    uri = f"{view}/table"
    run(spark, JobSpec(statement=WriteStatement(table=uri, source=SqlSource("SELECT id FROM range(4)"))))
    document = run(spark, JobSpec(statement=DeleteStatement(table=uri, where="id = 2")))
    assert document.error["code"] == "DELTA_UNSUPPORTED_STORAGE"
    assert len(list((tmp_path / "table" / "_delta_log").glob("*.json"))) == 1


def test_where_arrow_finds_no_native_library_the_driver_reads_through_hadoop(spark, view):
    log = table_log(spark, f"{view}/table")
    filesystem, root = log.store.data_filesystem()
    assert (filesystem.type_name, root) == ("py::log-store:HadoopLogStore", "")
    other, path = log.store.data_filesystem(f"{view}/elsewhere/x.parquet")
    assert (other.type_name, path) == ("py::log-store:HadoopLogStore", "data/elsewhere/x.parquet")
