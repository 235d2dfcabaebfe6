"""Columns of a table may have names that look like our own, such as those that Debezium adds to the rows of a change."""

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    DeleteStatement,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.errors import ReservedColumnError
from airflow_delta.spark.optimize.optimize import optimize

NAMES = (
    "__op",
    "__deleted",
    "__file",
    "__pos",
    "__row",
    "__drop",
    "__output",
    "__choice",
    "__moved",
    "__key_0",
    "__row_index",
    "__row_id",
)
ADDED = ", ".join(f"CONCAT('{name} ', id) AS {name}" for name in NAMES)
RECORDED = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}


MARKED = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


@pytest.fixture(params=[{}, RECORDED, MARKED], ids=["plain", "recorded", "marked"])
def log(request, write_rows, table):
    """Six rows, of which each column says its name and the row's id; by each of the ways in which rows change."""
    write_rows(f"SELECT /*+ COALESCE(1) */ id, {ADDED} FROM range(6)", properties=request.param)
    return DeltaLog.for_table(table)


def row(number, **changed):
    return {"id": number} | {name: f"{name} {number}" for name in NAMES} | changed


def rows(log):
    return sorted(log.refresh().to_arrow().read_all().to_pylist(), key=lambda row: row["id"])


def test_an_update_finds_its_rows_and_values(spark, log):
    assignments = {"__row": "upper(__file)", "__drop": "CAST(NULL AS STRING)"}
    changed = update(
        spark, log, UpdateStatement(table=log.table_uri, assignments=assignments, where="__row IN ('__row 2', '__row 4')")
    )

    assert changed.metrics["numUpdatedRows"] == 2
    becomes = {number: row(number, __row=f"__FILE {number}", __drop=None) for number in (2, 4)}
    assert rows(log) == [becomes.get(number, row(number)) for number in range(6)]


def test_a_delete_finds_its_rows(spark, log):
    delete(spark, log, DeleteStatement(table=log.table_uri, where="__row_id > '__row_id 3' OR __choice = '__choice 0'"))

    assert rows(log) == [row(1), row(2), row(3)]


def test_a_merge_distinguishes_columns_of_both_sides_from_its_own(spark, log):
    source = f"SELECT id, {ADDED} FROM range(3, 8)"
    clauses = (
        MatchedDelete(condition="source.__deleted = '__deleted 5'"),
        MatchedUpdate(assignments={"__file": "concat(target.__row, source.__output)"}),
        NotMatchedInsert(),
        NotMatchedBySourceUpdate(condition="target.__moved = '__moved 1'", assignments={"__key_0": "__row_index"}),
    )
    on = "target.__row = source.__row"
    merge(spark, log, MergeStatement(table=log.table_uri, source=SqlSource(source), on=on, clauses=clauses))

    assert rows(log) == [
        row(0),
        row(1, __key_0="__row_index 1"),
        row(2),
        row(3, __file="__row 3__output 3"),
        row(4, __file="__row 4__output 4"),
        row(6),
        row(7),
    ]


RESERVED = "__Airflow_delta_row"


@pytest.mark.parametrize(
    "change",
    [
        lambda spark, log: delete(spark, log, DeleteStatement(table=log.table_uri, where="id = 1")),
        lambda spark, log: update(spark, log, UpdateStatement(table=log.table_uri, assignments={"id": "2"})),
        lambda spark, log: optimize(spark, log, OptimizeStatement(table=log.table_uri)),
    ],
    ids=["delete", "update", "optimize"],
)
def test_a_table_with_a_name_that_statements_use_is_refused_and_can_be_mended(spark, table, change):
    log = DeltaLog.for_table(table)
    columns = parse_struct(f"id INT, {RESERVED} INT")
    log.create(NewTable(schema=columns, properties={"delta.columnMapping.mode": "name"}))
    with pytest.raises(ReservedColumnError, match=f"found in the table {table}: {RESERVED}"):
        change(spark, log)
    log.alter().rename_column(RESERVED, "row")
    change(spark, log)


def test_rows_and_sources_with_a_name_that_statements_use_are_refused(spark, log, write_rows):
    with pytest.raises(ReservedColumnError):
        write_rows(f"SELECT 7 AS id, 1 AS {RESERVED}", merge_schema=True)
    merged = SqlSource(f"SELECT 1 AS id, 1 AS {RESERVED}")
    statement = MergeStatement(table=log.table_uri, source=merged, on="target.id = source.id", clauses=(MatchedDelete(),))
    with pytest.raises(ReservedColumnError, match=f"found in the source: {RESERVED}"):
        merge(spark, log, statement)
    assert rows(log) == [row(number) for number in range(6)]
