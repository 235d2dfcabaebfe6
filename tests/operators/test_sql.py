"""SQL as a task: a statement's text becomes that statement, and is run as its own operator would run it."""

import json

import pytest

from airflow_delta.catalogs.entry import TableDescription
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, SqlTextError
from airflow_delta.core.sql_text import parse_statement
from airflow_delta.core.statements import (
    AlterStatement,
    DeleteStatement,
    Expectation,
    ManifestStatement,
    MatchedDelete,
    MergeStatement,
    OptimizeStatement,
    RenameColumn,
    SqlSource,
    TableSource,
    VacuumStatement,
    WriteMode,
    WriteStatement,
)
from airflow_delta.operators import DeltaMergeOperator, DeltaSqlOperator
from tests.operators.test_job import COMMIT


def statement(**arguments):
    return DeltaSqlOperator(task_id="sql", **arguments).statement()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"sql": "DELETE FROM delta.`/t` WHERE a = 1"}, DeleteStatement(table="/t", where="a = 1")),
        (
            {"table": "flights", "sql": "DELETE FROM f WHERE f.a = 1", "dry_run": True, "publish": "later"},
            DeleteStatement(table="flights", where="target.a = 1", dry_run=True, publish="later"),
        ),
        ({"sql": "VACUUM delta.`/t`"}, VacuumStatement(table="/t", dry_run=False)),
        ({"sql": "VACUUM delta.`/t` DRY RUN"}, VacuumStatement(table="/t", dry_run=True)),
        ({"sql": "VACUUM delta.`/t`", "dry_run": True}, VacuumStatement(table="/t", dry_run=True)),
        ({"sql": "OPTIMIZE delta.`lake/t`"}, OptimizeStatement(table="lake/t")),
        (
            {"sql": "ALTER TABLE delta.`/t` RENAME COLUMN a TO b"},
            AlterStatement(table="/t", changes=(RenameColumn("a", "b"),)),
        ),
        (
            {
                "sql": "INSERT OVERWRITE delta.`/t` SELECT * FROM feed JOIN delta.`/u`",
                "views": {"feed": "/feed"},
                "expect": "a > 0",
            },
            WriteStatement(
                table="/t",
                source=SqlSource(
                    "SELECT * FROM feed JOIN delta_0", views={"feed": TableSource("/feed"), "delta_0": TableSource("/u")}
                ),
                mode=WriteMode.OVERWRITE,
                by_position=True,
                expect=(Expectation("a > 0"),),
            ),
        ),
        (
            {"sql": "MERGE INTO delta.`/t` t USING feed ON t.a = feed.a WHEN MATCHED THEN DELETE", "views": {"feed": "/feed"}},
            MergeStatement(table="/t", source=TableSource("/feed"), on="target.a = source.a", clauses=(MatchedDelete(),)),
        ),
    ],
)
def test_the_statement_is_that_of_its_own_operator(arguments, expected):
    assert statement(**arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "give either query, whose rows are written, or sql"),
        ({"query": "SELECT 1", "sql": "OPTIMIZE delta.`/t`"}, "give either query"),
        (
            {"sql": "INSERT INTO delta.`/t` SELECT 1", "mode": "overwrite", "partition_by": ["a"]},
            "mode, partition_by is part of the text of sql",
        ),
        ({"query": "SELECT 1"}, "table must be a text"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused_where_the_dag_is_written(arguments, text):
    with pytest.raises(InvalidStatementError, match=text):
        DeltaSqlOperator(task_id="sql", **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"sql": "DESCRIBE HISTORY delta.`/t`"}, "DESCRIBE HISTORY changes nothing"),
        ({"sql": "OPTIMIZE delta.`/t`", "expect": "a > 0", "publish": "later"}, "OPTIMIZE does not take expect, publish"),
        ({"sql": "CONVERT TO DELTA parquet.`/t`", "expect": "a > 0"}, "CONVERT does not take expect"),
    ],
)
def test_what_the_statement_does_not_take_is_refused(arguments, text):
    with pytest.raises(InvalidStatementError, match=text):
        statement(**arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"sql": "GENERATE symlink_format_manifest FOR TABLE delta.`/t`", "expect": []}, ManifestStatement(table="/t")),
        ({"sql": "VACUUM delta.`/t` DRY RUN"}, VacuumStatement(table="/t", dry_run=True)),
    ],
)
def test_a_dry_run_that_renders_to_false_is_as_if_it_were_not_given(arguments, expected):
    assert statement(**arguments, dry_run="False") == expected


@pytest.mark.parametrize("text", ["OPTIMIZE flights", "SELECT 1", "OPTIMIZE delta.`/t`; OPTIMIZE delta.`/t`"])
def test_a_text_outside_of_the_grammar_is_an_error_with_its_place(text):
    with pytest.raises(SqlTextError, match="line 1, column"):
        statement(sql=text)


def test_names_are_those_of_the_connection_s_catalog_and_are_refused_without_one(monkeypatch):
    catalog = {"type": "glue", "region": "eu-west-1"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": {"catalog": catalog}}))
    text = "MERGE INTO sales.orders o USING sales.`new orders` n ON o.id = n.id WHEN MATCHED THEN DELETE"
    operator = DeltaSqlOperator(task_id="sql", delta_conn_id="lake", sql=text)
    found = operator.statement()
    assert [operator.hook.table_name(named.table) for named in (found, found.source)] == [
        TableName("orders", "sales"),
        TableName("new orders", "sales"),
    ]
    assert found.on == "target.id = source.id"
    with pytest.raises(SqlTextError, match="is the name of a catalog, and there is none"):
        statement(sql=text)
    with pytest.raises(SqlTextError, match="is the name of a catalog, and there is none"):
        statement(delta_conn_id="lake", sql="OPTIMIZE orders")


def test_a_statement_is_submitted_as_that_statement_with_its_token_and_its_result(empty_table, recording_submit, run_task):
    submit = recording_submit(COMMIT + "write_commit()")

    def purge():
        return DeltaSqlOperator(
            task_id="purge",
            sql=f"DELETE FROM delta.`{empty_table}` AS t WHERE t.day < '{{{{ ds }}}}'",
            conn_id="spark_local",
            spark_binary=str(submit.path),
        )

    run = run_task(purge)
    (call,) = submit.calls
    assert any("delta_delete" in argument for argument in call["argv"])
    assert call["spec"]["statement"]["$type"] == "delete"
    assert call["spec"]["statement"]["table"] == str(empty_table)
    assert call["spec"]["statement"]["where"] == "target.day < '2013-01-02'"
    assert call["spec"]["start_version"] == 0
    assert (run.state, run.version) == ("success", 1)


def test_behind_the_commit_of_a_text_the_catalog_is_not_asked_for_the_tables_of_its_query(
    unity, empty_table, recording_submit, run_task
):
    unity.client.create(TableName("report", "sales"), TableDescription.of(DeltaLog.for_table(str(empty_table)).snapshot()))

    class OutOfOrder(DeltaSqlOperator):
        def _deliver(self, document, context):
            unity.failing = 1_000
            return super()._deliver(document, context)

    text, submit = "INSERT INTO sales.report SELECT id FROM sales.orders", recording_submit()
    given = {"delta_conn_id": "lake", "conn_id": "spark_local", "spark_binary": str(submit.path)}
    run = run_task(lambda: OutOfOrder(task_id="sql", sql=text, **given))
    assert (run.errors, run.state, run.version) == ([], "success", 1)
    assert run.result["details"]["catalog"] == {"catalog": "unity", "name": "sales.report"}


def test_a_text_that_is_wrong_fails_the_task_before_anything_is_submitted(recording_submit, run_task):
    submit = recording_submit()
    run = run_task(
        lambda: DeltaSqlOperator(
            task_id="sql", sql="VACUUM delta.`/t` RETAIN 3 DAYS", conn_id="spark_local", spark_binary=str(submit.path)
        )
    )
    assert isinstance(run.errors[0], SqlTextError)
    assert submit.calls == []


@pytest.mark.parametrize("text", [["DELETE FROM delta.`/t`", "OPTIMIZE delta.`/t`"], b"OPTIMIZE delta.`/t`", 7])
def test_what_is_no_text_is_refused_when_the_dag_is_parsed(text):
    for arguments in ({"sql": text}, {"table": "/t", "query": text}):
        with pytest.raises(InvalidStatementError, match=r"(sql|query) must be a text, found"):
            DeltaSqlOperator(task_id="sql", **arguments)
    with pytest.raises(InvalidStatementError, match="sql must be a text, found"):
        DeltaMergeOperator(task_id="merge", table="/t", sql=text)
    with pytest.raises(InvalidStatementError, match="its text must be a text, found"):
        parse_statement(text)
