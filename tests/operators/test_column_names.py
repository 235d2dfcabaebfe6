"""Columns whose names are SQL keywords, or contain dots or backticks, in operators' statements, run as in a job."""

import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.operators import (
    DeltaDeleteOperator,
    DeltaMergeOperator,
    DeltaSqlOperator,
    DeltaUpdateOperator,
    DeltaWriteOperator,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    SqlSource,
)
from airflow_delta.spark import DeltaTable

MAPPED = {"delta.columnMapping.mode": "name"}
MERGED = SqlSource(
    "SELECT id, 'd' AS `default`, id * 10 AS `select`, 'ab' AS `a.b`, 'tick' AS `a``b` FROM VALUES (2L), (3L), (9L) AS ids(id)"
)


@pytest.fixture
def execute(spark):
    """Run an operator's statement as its job does; returns the result."""

    def executed(operator, **arguments):
        spec = JobSpec(statement=operator(task_id="task", **arguments).statement(), origin=Origin())
        document = run(spark, JobSpec.from_text(spec.to_text()))
        if document.outcome is None:
            raise document.typed_error()
        return document.outcome

    return executed


@pytest.fixture(params=["rewritten", "deletion vectors"])
def table(request, execute, tmp_path):
    """Ids 1 to 4 with a value in each column of an awkward name."""
    marks = {"delta.enableDeletionVectors": "true"} if request.param == "deletion vectors" else {}
    rows = SqlSource("SELECT id, 'x' AS `default`, id AS `select`, 'y' AS `a.b`, 'z' AS `a``b` FROM range(1, 5)")
    table = str(tmp_path / "table")
    execute(DeltaWriteOperator, table=table, source=rows, mode="overwrite", properties=MAPPED | marks)
    return table


def rows(spark, table):
    return sorted(tuple(row) for row in DeltaTable.forPath(spark, table).toDF().collect())


def test_update_assigns_and_reads_them(spark, execute, table):
    execute(
        DeltaUpdateOperator,
        table=table,
        assignments={
            "default": "concat(target.`default`, '!')",
            "select": "`select` + 1",
            "`a.b`": "`a``b`",
            "`a``b`": "`a.b`",
        },
        where="`select` = 2 AND `default` = 'x' AND `a.b` = 'y' AND `a``b` = 'z'",
    )
    assert rows(spark, table) == [(1, "x", 1, "y", "z"), (2, "x!", 3, "z", "y"), (3, "x", 3, "y", "z"), (4, "x", 4, "y", "z")]


@pytest.mark.slow
def test_delete_finds_rows_by_them(spark, execute, table):
    where = "`a.b` = 'y' AND target.`select` < 4 AND `a``b` = 'z' AND `default` <> 'd'"
    assert execute(DeltaDeleteOperator, table=table, where=where).version == 1
    assert rows(spark, table) == [(4, "x", 4, "y", "z")]


def test_merge_matches_on_them_updates_and_inserts_them(spark, execute, table):
    execute(
        DeltaMergeOperator,
        table=table,
        source=MERGED,
        on="target.`select` * 10 = source.`select` AND target.`a.b` <> source.`a.b`",
        clauses=[
            MatchedDelete(condition="target.`default` = 'x' AND source.`select` = 30"),
            MatchedUpdate(assignments={"default": "source.`default`", "`a.b`": "source.`a``b`", "`a``b`": "target.`a.b`"}),
            NotMatchedInsert(),
        ],
    )
    assert rows(spark, table) == [
        (1, "x", 1, "y", "z"),
        (2, "d", 2, "tick", "y"),
        (4, "x", 4, "y", "z"),
        (9, "d", 90, "ab", "tick"),
    ]


@pytest.mark.slow
def test_merge_of_all_columns_on_a_key_that_is_a_word_of_sql(spark, execute, table):
    source = SqlSource(
        "SELECT 20L AS id, 'd' AS `default`, `select`, 'ab' AS `a.b`, 't' AS `a``b` FROM VALUES (2L), (7L) AS s(`select`)"
    )
    execute(DeltaMergeOperator, table=table, source=source, on="target.`select` = source.`select`")
    assert rows(spark, table) == [
        (1, "x", 1, "y", "z"), (3, "x", 3, "y", "z"), (4, "x", 4, "y", "z"), (20, "d", 2, "ab", "t"), (20, "d", 7, "ab", "t")
    ]  # fmt: skip


@pytest.mark.slow
def test_insert_appends_and_replaces_them(spark, execute, table):
    execute(DeltaWriteOperator, table=table, source=MERGED, mode="append")
    assert [row[0] for row in rows(spark, table)] == [1, 2, 2, 3, 3, 4, 9]
    execute(
        DeltaWriteOperator,
        table=table,
        source=SqlSource("SELECT 5L AS id, 'x' AS `default`, 5L AS `select`, 'ab' AS `a.b`, 'tick' AS `a``b`"),
        mode="replace_where",
        replace_where="`a.b` = 'ab' AND `a``b` = 'tick'",
    )
    assert [row[0] for row in rows(spark, table)] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_texts_of_statements_name_them(spark, execute, table):
    name = f"delta.`{table}`"
    execute(
        DeltaSqlOperator,
        sql=f"UPDATE {name} SET `default` = DEFAULT, `a.b` = `a``b`, `select` = `select` * 2 WHERE `select` = 1",
    )
    execute(DeltaSqlOperator, sql=f"DELETE FROM {name} WHERE `a.b` = 'y' AND `select` > 2")
    execute(
        DeltaSqlOperator,
        sql=f"INSERT INTO {name} (`a``b`, `select`, `default`, `a.b`, id) SELECT 'tick', 8L, 'd', 'ab', 8L",
    )
    execute(
        DeltaSqlOperator,
        sql=f"MERGE INTO {name} AS t USING (SELECT 8L AS `select`, 'new' AS `a.b`) AS s ON t.`select` = s.`select` "
        "WHEN MATCHED THEN UPDATE SET `a.b` = s.`a.b`, t.`a``b` = upper(t.`a``b`)",
    )
    assert rows(spark, table) == [(1, None, 2, "z", "z"), (2, "x", 2, "y", "z"), (8, "d", 8, "new", "TICK")]
