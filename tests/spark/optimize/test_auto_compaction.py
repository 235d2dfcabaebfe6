"""Small files that a commit leaves are compacted right after it, where the table requests it."""

import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import LONG, STRING
from airflow_delta.core.statements import DeleteStatement, SqlSource, WriteStatement
from airflow_delta.core.table_changes import NewTable
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.optimize import crowded_partitions
from airflow_delta.spark.optimize.auto_compaction import compacted_after
from airflow_delta.spark.write.write import write

SCHEMA = StructType((StructField("id", LONG), StructField("p", STRING)))


@pytest.fixture
def log(table):
    log = DeltaLog.for_table(table)
    log.create(NewTable(schema=SCHEMA, partition_columns=("p",), properties={"delta.autoOptimize.autoCompact": "auto"}))
    return log


def write_rows(spark, log, partition, ids):
    source = SqlSource(f"SELECT id, '{partition}' AS p FROM range({ids.start}, {ids.stop}, 1, 1)")
    return write(spark, log, WriteStatement(table=log.table_uri, source=source))


def partitions(log):
    return sorted(dict(values)["p"] for values in log.refresh().files()["partition_values"].to_pylist())


def test_only_partitions_that_the_commit_touched_are_compacted(spark, log, reference_rows):
    for number in range(3):
        write_rows(spark, log, "a", range(number, number + 1))
        last = write_rows(spark, log, "b", range(10 + number, 11 + number))
    few = compacted_after(spark, log, last, Origin(), min_files=4)
    done = compacted_after(spark, log, last, Origin(token="t", job={"jobName": "d.t"}), min_files=3)

    assert (few.details, partitions(log)) == ({}, ["a", "a", "a", "b"])
    compaction = done.details["autoCompaction"]
    assert (done.version, compaction["version"], compaction["metrics"]["numRemovedFiles"]) == (
        last.version,
        last.version + 1,
        3,
    )
    assert reference_rows() == [(0, "a"), (1, "a"), (2, "a"), (10, "b"), (11, "b"), (12, "b")]
    commit = log.history(1)[0].commit_info
    assert (str(commit.operation_parameters["auto"]).lower(), commit.origin.token, commit.origin.job) == (
        "true",
        None,
        {"jobName": "d.t"},
    )


def test_rows_that_deletion_vectors_hide_are_left_to_optimize_where_files_are_few(spark, log):
    log.alter().set_properties({"delta.enableDeletionVectors": "true"})
    write_rows(spark, log, "a", range(10))
    last = delete(spark, log, DeleteStatement(table=log.table_uri, where="id < 5"))
    few = compacted_after(spark, log, last, Origin())
    assert (few.details, log.refresh().version) == ({}, last.version)
    done = compacted_after(spark, log, last, Origin(), min_files=1)
    assert done.details["autoCompaction"]["metrics"]["numDeletionVectorsRemoved"] == 1
    assert sorted(log.refresh().to_arrow().read_all()["id"].to_pylist()) == [5, 6, 7, 8, 9]


def test_a_failure_is_reported_and_leaves_the_commit(spark, log, monkeypatch):
    last = write_rows(spark, log, "a", range(1))
    monkeypatch.setattr(crowded_partitions, "candidates", lambda *_: 1 / 0)
    assert compacted_after(spark, log, last, Origin()).details == {"autoCompaction": {"error": "ZeroDivisionError"}}


def test_the_job_of_a_write_compacts_what_it_left(spark, table):
    properties = {"delta.autoOptimize.autoCompact": "true"}
    DeltaLog.for_table(table).create(NewTable(schema=SCHEMA, properties=properties))
    source = SqlSource("SELECT id, 'x' AS p FROM range(0, 50, 1, 50)")
    spec = JobSpec(statement=WriteStatement(table=table, source=source), origin=Origin(token="task"), start_version=0)
    first, again = run(spark, spec), run(spark, spec)

    assert (first.error, first.outcome.version, first.outcome.details["autoCompaction"]["version"]) == (None, 1, 2)
    assert (again.outcome.version, again.outcome.already_committed) == (1, True)
    files = DeltaTable(table)
    assert (files.version(), len(files.file_uris()), files.to_pyarrow_table().num_rows) == (2, 1, 50)
