"""Positions of rows by Spark's own reader: those that Python workers find."""

from itertools import groupby

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import DeleteStatement, UpdateStatement
from airflow_delta.spark.dml import jvm_positions as module
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.position_scan import FILE, ROW
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.dml.update import update

CONDITION = "hash(id) % 3 = 0"  # that only Spark can decide
VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def for_jvm(monkeypatch):
    """Make Spark's own reader find positions, however little is read."""
    monkeypatch.setattr(module, "_LEAST_BYTES", 0)


@pytest.fixture
def days(table):
    """Three files in partitions of two days with signs of paths, and one whose day is NULL."""
    for first, day in ((0, "a b"), (100, "50%/x"), (200, "a b"), (300, None)):
        rows = pa.table({"id": range(first, first + 100), "day": pa.array([day] * 100, pa.string())})
        write_deltalake(table, rows, mode="append", partition_by=["day"], configuration=VECTORS)
    return table


def selection_of(spark, table, where):
    snapshot = DeltaLog.for_table(table).snapshot()
    selection = Selection.of(spark, snapshot, where)
    return selection, selection.candidates()


def found(spark, table, where=CONDITION):
    selection, candidates = selection_of(spark, table, where)
    positions = selection.positions(spark, candidates).select(F.spark_partition_id().alias("task"), FILE, ROW)
    rows = [tuple(row) for row in positions.collect()]
    of_files = [[row for *_, row in group] for _, group in groupby(rows, key=lambda row: row[:2])]
    assert len(of_files) == len({file for _, file, _ in rows})  # those of a file stand together
    assert of_files == [sorted(places) for places in of_files]
    paths = candidates["path"].to_pylist()
    return sorted((paths[file], row) for _, file, row in rows)


def reads_by_jvm(spark, table, where=CONDITION):
    selection, candidates = selection_of(spark, table, where)
    return "FileScan parquet" in selection.positions(spark, candidates)._jdf.queryExecution().toString()


@pytest.mark.parametrize("where", ["TRUE", "day = 'a b'", "coalesce(day, 'none') <> 'a b'"])
def test_both_find_the_same_rows_whatever_the_partitions_are_called(spark, days, where, monkeypatch):
    by_workers = found(spark, days, f"{where} AND {CONDITION}")
    monkeypatch.setattr(module, "_LEAST_BYTES", 0)
    assert found(spark, days, f"{where} AND {CONDITION}") == by_workers
    assert len(by_workers) > 20


@pytest.mark.classic(reason="the plan is looked into")
def test_spark_reads_what_it_alone_can_decide_and_workers_the_rest(spark, days, for_jvm):
    assert reads_by_jvm(spark, days)
    assert not reads_by_jvm(spark, days, "id < 7")


@pytest.mark.classic(reason="the plan is looked into")
def test_little_is_read_by_workers(spark, days):
    assert not reads_by_jvm(spark, days)


@pytest.mark.classic(reason="the plan is looked into")
def test_files_that_hide_rows_are_read_by_workers_all_together(spark, days, for_jvm):
    delete(spark, DeltaLog.for_table(days), DeleteStatement(table=days, where="id = 5"))
    assert not reads_by_jvm(spark, days)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_the_rows_are_deleted_and_no_others(spark, days, for_jvm, vectors):
    kept = {row.id for row in spark.range(400).where(f"NOT ({CONDITION})").collect()}
    DeltaTable(days).alter.set_table_properties({"delta.enableDeletionVectors": vectors})

    result = delete(spark, DeltaLog.for_table(days), DeleteStatement(table=days, where=CONDITION))

    assert result.metrics["numDeletedRows"] == 400 - len(kept)
    assert (result.metrics["numDeletionVectorsAdded"] > 0) == (vectors == "true")
    assert set(ids(days)) == kept


def test_the_rows_are_updated_and_no_others(spark, days, for_jvm):
    chosen = {row.id for row in spark.range(400).where(CONDITION).collect()}

    result = update(
        spark, DeltaLog.for_table(days), UpdateStatement(table=days, where=CONDITION, assignments={"id": "id + 1000"})
    )

    assert result.metrics["numUpdatedRows"] == len(chosen)
    assert sorted(ids(days)) == sorted([number for number in range(400) if number not in chosen] + [i + 1000 for i in chosen])


def ids(table):
    return DeltaLog.for_table(table).snapshot().to_arrow(columns=["id"]).read_all()["id"].to_pylist()
