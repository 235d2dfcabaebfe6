"""Rows keep their ids, and the versions that last changed them, as Delta Lake 4.4.0 says of the same statements."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    DeleteStatement,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.core.table_changes import NewTable
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.schema_conversion import from_spark
from airflow_delta.spark.write.write import write
from tests.golden_tables import TABLES

TABLE = TABLES / "row_tracking"
TRACKED = {"delta.enableRowTracking": "true"}
DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
PRESERVED = "delta.rowTracking.preserved"


def ids(log, columns=("id", "s")):
    rows = log.refresh().to_arrow(with_row_ids=True).read_all().select([*columns, "__row_id", "__row_commit_version"])
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def kept(log):
    """Whether the last commit says that it kept the ids of rows."""
    return log.history(1)[0].commit_info.tags.get(PRESERVED)


@pytest.fixture
def tracked(spark, table):
    """A table of ten rows that tracks them: ``tracked(properties)``."""

    def make(properties=None, partition_by=()):
        log = DeltaLog.for_table(table)
        query = "SELECT id, CONCAT('p', id % 2) AS p, id AS v FROM range(0, 10, 1, 1)"
        schema = from_spark(spark.sql(query).schema)
        log.create(NewTable(schema=schema, partition_columns=partition_by, properties={**TRACKED, **(properties or {})}))
        write(spark, log, WriteStatement(table=table, source=SqlSource(query)))
        return log

    return make


def test_the_statements_of_delta_leave_the_ids_that_delta_left(spark, table):
    expected = json.loads((TABLE / "expected.json").read_text())["versions"]
    shutil.copytree(TABLE / "table", table)
    for version in range(3, 7):
        for path in Path(table).glob(f"_delta_log/*{version}.*"):
            path.unlink()
    log = DeltaLog.for_table(table)
    source = SqlSource("SELECT id, 'm' AS s FROM range(18, 23)")
    clauses = [MatchedUpdate(assignments={"s": "source.s"}), NotMatchedInsert(assignments={"id": "source.id", "s": "'i'"})]
    statements = {
        "3": lambda: update(spark, log, UpdateStatement(table=table, where="id IN (2, 12)", assignments={"s": "'u'"})),
        "4": lambda: delete(spark, log, DeleteStatement(table=table, where="id = 5")),
        "5": lambda: merge(spark, log, MergeStatement(table=table, source=source, on="target.id = source.id", clauses=clauses)),
        "6": lambda: optimize(spark, log, OptimizeStatement(table=table)),
    }
    for version, run in statements.items():
        assert run().version == int(version)
        by_delta = {row[0]: tuple(row) for row in expected[version]["with_metadata_columns"]["rows"]}
        for row in ids(log):
            theirs = by_delta.pop(row[0])
            # Which ids new rows get depends on how the statement spreads them over files.
            assert row == theirs if row[0] < 20 else (row[1], row[3]) == (theirs[1], theirs[3])
        assert (by_delta, kept(log)) == ({}, "true")


@pytest.mark.parametrize(("properties", "order"), [({}, ("v",)), (DELETION_VECTORS, ())], ids=["rewritten", "hidden"])
def test_rows_that_move_between_partitions_and_files_carry_their_ids(spark, tracked, table, properties, order):
    log = tracked(properties, partition_by=("p",))
    before = {row[0]: row[2:] for row in ids(log, ("id", "p"))}
    update(spark, log, UpdateStatement(table=table, where="id < 3", assignments={"p": "'p9'"}))
    update(spark, log, UpdateStatement(table=table, where="id IN (0, 7)", assignments={"v": "v + 1", "p": "p"}))

    changed = {0: 3, 1: 2, 2: 2, 7: 3}
    found = {row[0]: row[2:] for row in ids(log, ("id", "p"))}
    assert found == {key: (row_id, changed.get(key, version)) for key, (row_id, version) in before.items()}
    assert kept(log) == "true"
    write(spark, log, WriteStatement(table=table, source=SqlSource("SELECT 50L AS id, 'p9' AS p, 1L AS v")))
    found = {row[0]: row[2:] for row in ids(log, ("id", "p"))}
    assert optimize(spark, log, OptimizeStatement(table=table, z_order_by=order)).committed
    assert ({row[0]: row[2:] for row in ids(log, ("id", "p"))}, kept(log)) == (found, "true")


def test_ids_are_no_columns_and_have_no_statistics(spark, tracked, table, reference_rows):
    log = tracked()
    update(spark, log, UpdateStatement(table=table, where="id = 3", assignments={"v": "-1"}))

    assert reference_rows(columns="id, v")[3] == (3, -1)
    (path, stats), *others = zip(*(log.refresh().files()[name].to_pylist() for name in ("path", "stats")), strict=True)
    assert others == []
    names = pq.read_schema(f"{table}/{path}").names
    configuration = log.refresh().metadata.configuration
    materialized = [configuration[f"delta.rowTracking.materialized{kind}ColumnName"] for kind in ("RowId", "RowCommitVersion")]
    assert names == ["id", "p", "v", *materialized]
    assert set(json.loads(stats)["minValues"]) == {"id", "p", "v"}
    write(spark, log, WriteStatement(table=table, source=SqlSource("SELECT 77L AS id, 'p' AS p, 1L AS v")))
    appended = log.refresh().files()["path"].to_pylist()
    assert [pq.read_schema(f"{table}/{name}").names for name in appended if name != path] == [["id", "p", "v"]]


def test_a_table_that_only_numbers_its_rows_gets_no_further_columns(spark, tracked, table):
    log = tracked()
    log.alter().set_properties({"delta.enableRowTracking": "false"})
    update(spark, log, UpdateStatement(table=table, where="id = 3", assignments={"v": "-1"}))
    files = log.refresh().files()
    assert pq.read_schema(f"{table}/{files['path'][0]}").names == ["id", "p", "v"]
    assert files["base_row_id"].to_pylist() == [10]
