"""DAGs with ``render_template_as_native_obj`` give the same statements as other DAGs."""

from datetime import date, timedelta
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    AddConstraint,
    Expectation,
    ExpectStatement,
    FileSource,
    MatchedUpdate,
    PythonSource,
    SequenceStatement,
    SetDefault,
    SetProperties,
    SqlSource,
    TableSource,
    WriteStatement,
)
from airflow_delta.core.statements.publish import StagedHandle
from airflow_delta.operators import (
    DeltaAlterOperator,
    DeltaCopyIntoOperator,
    DeltaCreateOperator,
    DeltaDeleteOperator,
    DeltaExpectOperator,
    DeltaMergeOperator,
    DeltaPythonOperator,
    DeltaRestoreOperator,
    DeltaSqlOperator,
    DeltaStatementsOperator,
    DeltaTablesOperator,
    DeltaUpdateOperator,
    DeltaWriteOperator,
)
from airflow_delta.sensors import DeltaCommitSensor

T = {"task_id": "t", "table": "/t"}
HANDLE = {"table": "/lake/t", "id": "a", "base_version": 3, "digest": None, "name": None}


def function(spark, text="", number=0, days=(), table=None):
    return spark.range(1)


def rendered(make, *, native=True, **context):
    """The operator in a DAG of its own, with its templates rendered."""
    macros = {"literal": lambda value: f"'{value}'"}
    with DAG("d", schedule=None, render_template_as_native_obj=native, user_defined_macros=macros) as dag:
        task = make()
    task.render_template_fields(
        {"ti": Mock(), "dag": dag, "task": task, "ds": "2026-01-01", "day": date(2026, 1, 1), **context}
    )
    return task


@pytest.mark.parametrize(
    ("make", "name", "expected"),
    [
        (
            lambda: DeltaUpdateOperator(**T, assignments={"day": "'{{ ds }}'", "state": "'closed'", "n": "{{ 1 }}"}),
            "assignments",
            {"day": "'2026-01-01'", "state": "'closed'", "n": "1"},
        ),
        (
            lambda: DeltaMergeOperator(**T, source="/s", on="a", clauses=[MatchedUpdate(assignments={"day": "'{{ day }}'"})]),
            "clauses",
            (MatchedUpdate(assignments={"day": "'2026-01-01'"}),),
        ),
        (lambda: DeltaDeleteOperator(**T, where="'{{ ds }}'"), "where", "'2026-01-01'"),
        (lambda: DeltaDeleteOperator(**T, where="{{ literal(ds) }}"), "where", "'2026-01-01'"),
        (lambda: DeltaDeleteOperator(**T, where="{{ day.year }}"), "where", "2026"),
        (lambda: DeltaDeleteOperator(**T, where="True"), "where", "True"),
        (
            lambda: DeltaDeleteOperator(**T, where="{% macro quoted(x) %}'{{ x }}'{% endmacro %}d = {{ quoted(ds) }}"),
            "where",
            "d = '2026-01-01'",
        ),
        (lambda: DeltaWriteOperator(**T, source="/s", user_metadata='{"run": 1}'), "user_metadata", '{"run": 1}'),
        (
            lambda: DeltaWriteOperator(**T, source="/s", user_metadata="{{ {'run': 1} | tojson }}"),
            "user_metadata",
            '{"run": 1}',
        ),
        (lambda: DeltaWriteOperator(**T, source="/s", user_metadata="{{ day.year }}"), "user_metadata", "2026"),
        (lambda: DeltaWriteOperator(**T, source="/s", partition_by=["2026"]), "partition_by", ("2026",)),
        (
            lambda: DeltaWriteOperator(**T, source="/s", expect=["'{{ ds }}'", "{{ literal(ds) }} = day"]),
            "expect",
            (Expectation("'2026-01-01'"), Expectation("'2026-01-01' = day")),
        ),
        (lambda: DeltaWriteOperator(**T, source="/s", txn=("20260101", "{{ 5 }}")), "txn", ("20260101", 5)),
        (
            lambda: DeltaWriteOperator(
                **T, source=FileSource("/f", format="csv", options={"quote": "'\"'", "nullValue": "None"})
            ),
            "source",
            FileSource("/f", format="csv", options={"quote": "'\"'", "nullValue": "None"}),
        ),
        (
            lambda: DeltaWriteOperator(**T, source="/s", properties={"delta.checkpointInterval": "{{ day.day }}"}),
            "properties",
            {"delta.checkpointInterval": "1"},
        ),
        (lambda: DeltaAlterOperator(**T, changes=SetDefault("c", "'new'")), "changes", (SetDefault("c", "'new'"),)),
        (lambda: DeltaAlterOperator(**T, changes=[AddConstraint("c", "True")]), "changes", (AddConstraint("c", "True"),)),
        (lambda: DeltaCreateOperator(**T, columns={"a": "INT"}, comment="2026"), "comment", "2026"),
        (lambda: DeltaCopyIntoOperator(**T, path="/f", format="csv", options={"sep": "','"}), "options", {"sep": "','"}),
        (lambda: DeltaSqlOperator(**T, query="'{{ ds }}'"), "source", SqlSource("'2026-01-01'")),
        (
            lambda: DeltaStatementsOperator(task_id="t", statements=[ExpectStatement(table="/t", expect="'{{ ds }}' = day")]),
            "statements",
            (ExpectStatement(table="/t", expect="'2026-01-01' = day"),),
        ),
        (lambda: DeltaRestoreOperator(**T, version="{{ day.day }}"), "version", 1),
        (lambda: DeltaRestoreOperator(**T, timestamp="{{ day }}"), "timestamp", "2026-01-01"),
    ],
)
@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_a_text_of_a_statement_is_the_same_in_a_native_dag_as_in_any_other(make, name, expected, native):
    assert getattr(rendered(make, native=native).statement(), name) == expected


def test_what_one_template_gives_whole_is_a_value():
    columns = rendered(lambda: DeltaWriteOperator(**T, source="/s", partition_by="{{ ['day', 'hour'] }}"))
    properties = rendered(lambda: DeltaWriteOperator(**T, source="/s", properties="{{ given }}"), given={"owner": "'me'"})
    expectations = rendered(lambda: DeltaExpectOperator(**T, expect="{{ given }}"), given=["a > 0", "'x'"])
    source = rendered(lambda: DeltaWriteOperator(**T, source="{{ given }}"), given=TableSource("/feed", version=7))
    staged = rendered(lambda: DeltaExpectOperator(**T, expect="a > 0", staged="{{ given }}"), given=HANDLE)
    assert columns.statement().partition_by == ("day", "hour")
    assert properties.statement().properties == {"owner": "'me'"}
    assert expectations.statement().expect == (Expectation("a > 0"), Expectation("'x'"))
    assert source.statement().source == TableSource("/feed", version=7)
    assert staged.statement().staged == StagedHandle(table="/lake/t", id="a", base_version=3)


def test_a_handle_within_a_source_is_a_value():
    task = rendered(lambda: DeltaWriteOperator(**T, source=TableSource("/lake/t", staged="{{ given }}")), given=HANDLE)
    assert task.statement().source.staged == StagedHandle(table="/lake/t", id="a", base_version=3)


def test_numbers_reach_a_function_as_numbers_and_texts_as_they_were_written():
    arguments = {
        "text": "007",
        "number": "{{ day.year }}",
        "days": ["{{ ds }}", "{{ day.day }}"],
        "table": TableSource("/{{ 'feed' }}", version="{{ day.day }}"),
    }
    expected = {"text": "007", "number": 2026, "days": ("2026-01-01", 1), "table": TableSource("/feed", version=1)}
    task = rendered(lambda: DeltaPythonOperator(**T, python_callable=function, op_kwargs=arguments))
    several = rendered(
        lambda: DeltaStatementsOperator(
            task_id="t", statements=[WriteStatement(table="/t", source=PythonSource.of(function, **arguments))]
        )
    )
    assert task.statement().source.arguments == expected
    assert isinstance(several.statement(), SequenceStatement)
    assert several.statement().statements[0].source.arguments == expected


def test_all_arguments_of_a_function_may_be_one_template():
    task = rendered(
        lambda: DeltaPythonOperator(**T, python_callable=f"{__name__}:function", op_kwargs="{{ given }}"),
        given={"text": "'a'", "number": 7},
    )
    assert task.statement().source.arguments == {"text": "'a'", "number": 7}


def test_sensors_and_searches_take_texts_as_texts():
    waits = rendered(lambda: DeltaCommitSensor(**T, min_version="{{ day.day }}", partitions="'{{ ds }}' = '2026-01-01'"))
    fresh = rendered(lambda: DeltaCommitSensor(**T, fresh_within="{{ given }}"), given=timedelta(hours=2))
    finds = rendered(lambda: DeltaTablesOperator(task_id="t", root="/lake", pattern="2026"))
    assert (waits.min_version, waits.partitions) == (1, "'2026-01-01' = '2026-01-01'")
    assert fresh.requested_wait().window.within == timedelta(hours=2) / timedelta(milliseconds=1)
    assert finds.pattern == "2026"


def test_the_table_gets_the_text_that_was_written(empty_table, run_task):
    run = run_task(
        lambda: DeltaAlterOperator(
            task_id="task",
            table=str(empty_table),
            changes=SetProperties({"note": "'quoted'", "day": "'{{ ds }}'"}),
            engine="worker",
        ),
        native=True,
    )
    assert run.state == "success", run.errors
    assert DeltaLog.for_table(str(empty_table)).snapshot().metadata.configuration == {"note": "'quoted'", "day": "'2013-01-02'"}
