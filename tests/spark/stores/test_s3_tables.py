"""Every operation on a table in S3, with a Spark that has no Hadoop connector; read again by deltalake or the core."""

import json
import threading

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import ConstraintViolatedError, DeltaError, ExpectationFailedError
from airflow_delta.core.statements import (
    DeleteStatement,
    Expectation,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    TableSource,
    UpdateStatement,
    WriteMode,
    WriteStatement,
)
from airflow_delta.core.storage.ambient_options import VARIABLE
from airflow_delta.spark.delta_table.frame_reader import delta_reader
from airflow_delta.spark.delta_table.frame_writer import delta_writer
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.statement.staged_rows import write_rows
from airflow_delta.spark.write.write import write
from tests.spark.needs import looks_into_the_jvm

TEN = "SELECT id, CONCAT('n', id) AS name, id % 2 AS p FROM range(10)"


def test_rows_are_written_appended_overwritten_and_replaced(s3_table):
    s3_table.write_rows(TEN, partition_by=("p",))
    assert s3_table.by_deltalake("id", "name", "p") == [(n, f"n{n}", n % 2) for n in range(10)]
    s3_table.write_rows("SELECT 10L AS id, 'n10' AS name, 0L AS p")
    assert len(s3_table.by_deltalake()) == 11
    s3_table.write_rows("SELECT 1L AS id, 'one' AS name, 1L AS p", mode=WriteMode.REPLACE_WHERE, replace_where="p = 1")
    assert s3_table.by_deltalake("id", "name")[:2] == [(0, "n0"), (1, "one")]
    assert len(s3_table.by_deltalake()) == 7
    result = s3_table.write_rows("SELECT 5L AS id, 'all' AS name, 0L AS p", mode=WriteMode.OVERWRITE)
    assert s3_table.by_deltalake() == [(5, "all", 0)]
    assert {name: result.metrics[name] for name in ("numFiles", "numOutputRows", "numRemovedFiles")} == {
        "numFiles": 1,
        "numOutputRows": 1,
        "numRemovedFiles": 3,
    }


@pytest.mark.slow
def test_statistics_of_what_workers_wrote_prune_files(spark, s3_table):
    s3_table.write_rows(TEN, partition_by=("p",))
    snapshot = s3_table.log.snapshot()
    assert len(snapshot.files("id = 0")) == len(snapshot.files("p = 1")) == 1
    for add in snapshot.files().to_pylist():
        stats = json.loads(add["stats"])
        assert (stats["numRecords"], stats["nullCount"]) == (5, {"id": 0, "name": 0})
        (odd,) = (int(value) for _, value in add["partition_values"])
        assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (odd, odd + 8)
    assert read_table(spark, snapshot, ["name"], where="id = 0").collect() == [("n0",)]


def test_rows_are_merged_updated_and_deleted(spark, s3_table):
    s3_table.write_rows(TEN, partition_by=("p",))
    source = SqlSource("SELECT id, 'merged' AS name, id % 2 AS p FROM range(8, 12)")
    clauses = (MatchedUpdate(), NotMatchedInsert())
    merged = merge(
        spark, s3_table.log, MergeStatement(table=s3_table.uri, source=source, on="target.id = source.id", clauses=clauses)
    )
    assert (merged.metrics["numTargetRowsInserted"], merged.metrics["numTargetRowsUpdated"]) == (2, 2)
    assert s3_table.by_deltalake("id", "name")[7:] == [(7, "n7"), *((n, "merged") for n in range(8, 12))]
    update(
        spark, s3_table.log, UpdateStatement(table=s3_table.uri, assignments={"name": "'new'", "p": "7"}, where="id IN (0, 1)")
    )
    assert s3_table.by_deltalake()[:3] == [(0, "new", 7), (1, "new", 7), (2, "n2", 0)]
    delete(spark, s3_table.log, DeleteStatement(table=s3_table.uri, where="name = 'merged' OR id = 5"))
    assert s3_table.by_deltalake("id") == [(n,) for n in (0, 1, 2, 3, 4, 6, 7)]
    assert s3_table.by_core() == s3_table.by_deltalake()


@pytest.mark.slow
def test_deletion_vectors_hide_rows(spark, s3_table):
    s3_table.write_rows(TEN)
    s3_table.log.alter().set_properties({"delta.enableDeletionVectors": "true"})
    delete(spark, s3_table.log, DeleteStatement(table=s3_table.uri, where="id < 3"))
    update(spark, s3_table.log, UpdateStatement(table=s3_table.uri, assignments={"name": "'new'"}, where="id = 4"))
    source = SqlSource("SELECT id, 'gone' AS name, 0L AS p FROM range(8, 10)")
    clauses = (MatchedDelete(),)
    merge(spark, s3_table.log, MergeStatement(table=s3_table.uri, source=source, on="target.id = source.id", clauses=clauses))
    expected = [(n, "new" if n == 4 else f"n{n}") for n in range(3, 8)]
    assert s3_table.by_core("id", "name") == expected
    assert any(
        deletion_vector is not None for deletion_vector in s3_table.log.snapshot().files()["deletion_vector"].to_pylist()
    )
    shown = read_table(spark, s3_table.log.snapshot(), ["id", "name"]).orderBy("id").collect()
    assert [tuple(row) for row in shown] == expected


@pytest.mark.slow
def test_small_files_are_compacted(spark, s3_table):
    for number in range(3):
        s3_table.write_rows(f"SELECT {number}L AS id")
    result = optimize(spark, s3_table.log, OptimizeStatement(table=s3_table.uri, min_files=2))
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (3, 1)
    assert s3_table.by_deltalake() == [(0,), (1,), (2,)]


def test_a_table_is_the_source_of_a_merge_with_the_options_of_the_environment(spark, s3_table, s3, monkeypatch):
    monkeypatch.setenv(VARIABLE, json.dumps({"s3": s3.options}))
    source = DeltaLog.for_table(f"{s3.uri}/source")
    write(spark, source, WriteStatement(table=source.table_uri, source=SqlSource("SELECT 1L AS id, 'a' AS name, 1L AS p")))
    s3_table.write_rows(TEN)
    statement = MergeStatement(
        table=s3_table.uri,
        source=TableSource(source.table_uri),
        on="target.id = source.id",
        clauses=(MatchedUpdate(), NotMatchedInsert()),
    )
    result = merge(spark, DeltaLog.for_table(s3_table.uri), statement)
    assert s3_table.by_deltalake("id", "name")[:2] == [(0, "n0"), (1, "a")]
    assert [dict(source) for source in result.sources] == [{"table": source.table_uri, "version": 0}]


# -- what is left


def test_what_fails_leaves_no_object(s3_table):
    with pytest.raises(ExpectationFailedError):
        s3_table.write_rows(TEN, expect=(Expectation(name="none", sql="SELECT COUNT(*) = 0 FROM staged"),))
    assert list(s3_table.log.store.list_all()) == []
    s3_table.write_rows("SELECT 1L AS id, 'a' AS name, 1L AS p", partition_by=("p",))
    with pytest.raises(ConstraintViolatedError):
        s3_table.write_rows(TEN, mode=WriteMode.REPLACE_WHERE, replace_where="p = 1")
    assert s3_table.files() == s3_table.live()


@pytest.mark.slow
def test_a_task_that_was_killed_leaves_nothing_that_counts(spark, s3_table):
    """A task dies with a first file written: one task alone, as Spark waits for no other one when it gives up."""
    s3_table.write_rows("SELECT 100L AS id")

    def dies(batches):
        yield from batches
        raise OSError("the worker was lost")

    rows = spark.range(4, 8).union(spark.range(4).mapInArrow(dies, "id long")).coalesce(1)
    with pytest.raises(Exception, match="the worker was lost"), StagingArea(s3_table.log.store) as staging:
        write_rows(rows, staging, s3_table.log.snapshot().metadata)
    assert s3_table.by_deltalake() == [(100,)]
    assert s3_table.files() == s3_table.live()


def test_of_two_writers_at_once_both_commit(spark, s3_table):
    s3_table.write_rows(TEN)
    barrier, outcomes = threading.Barrier(2), {}

    def append(first):
        log = s3_table.log
        barrier.wait()
        query = f"SELECT id, 'more' AS name, 0L AS p FROM range({first}, {first + 5})"
        try:
            outcomes[first] = write(spark, log, WriteStatement(table=s3_table.uri, source=SqlSource(query))).version
        except DeltaError as error:
            outcomes[first] = error

    threads = [threading.Thread(target=append, args=(first,)) for first in (100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes.values()) == [1, 2]
    assert s3_table.by_deltalake("id")[10:] == [(n,) for n in (*range(100, 105), *range(200, 205))]


@looks_into_the_jvm
def test_aggregates_are_taken_in_the_one_pass_that_writes(spark, s3_table):
    seen = spark.sparkContext.accumulator(0)

    def count(batches):
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    s3_table.write_rows("SELECT 1L AS id")
    rows = spark.range(100).mapInArrow(count, "id long")
    with StagingArea(s3_table.log.store) as staging:
        staged = write_rows(rows, staging, s3_table.log.snapshot().metadata, observed={"total": F.sum("id")})
    assert (seen.value, dict(staged.observed), staged.rows) == (100, {"total": 4950}, 100)


def test_a_script_writes_and_reads_a_table_with_keys_of_its_own(spark, s3_table):
    keys = s3_table.store.options
    with pytest.raises(DeltaError):
        delta_writer(spark.range(3)).save(s3_table.uri)
    delta_writer(spark.range(3), storage_options=keys).save(s3_table.uri)
    delta_writer(spark.range(3, 5), storage_options=keys).mode("append").save(s3_table.uri)

    assert s3_table.by_deltalake() == [(0,), (1,), (2,), (3,), (4,)]
    rows = delta_reader(spark, storage_options=keys).option("versionAsOf", 0).load(s3_table.uri)
    assert sorted(row.id for row in rows.collect()) == [0, 1, 2]
