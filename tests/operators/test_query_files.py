"""Queries in files are read only for arguments that hold a query."""

from unittest.mock import Mock

import pendulum
import pytest
from airflow.sdk import DAG
from jinja2 import TemplateNotFound

from airflow_delta.core.statements import SqlSource
from airflow_delta.operators import DeltaMergeOperator, DeltaSqlOperator

QUERY = "SELECT '{{ ds }}' AS day, count(*) AS n FROM feed\n"
RENDERED = "SELECT '2026-01-01' AS day, count(*) AS n FROM feed"
MERGE = "MERGE INTO t USING feed s ON t.day = '{{ ds }}' AND s.id = t.id WHEN MATCHED THEN DELETE"


@pytest.fixture
def dag_of(tmp_path):
    """A DAG that finds two files with queries: ``dag_of(native=...)``."""

    def made(*, native=False):
        (tmp_path / "daily.sql").write_text(QUERY)
        (tmp_path / "merge.sql").write_text(MERGE)
        of_dag = {"start_date": pendulum.datetime(2013, 1, 1), "template_searchpath": str(tmp_path)}
        return DAG("files", schedule=None, render_template_as_native_obj=native, **of_dag)

    return made


def rendered(task, dag, *, is_parsed):
    if is_parsed:
        dag.resolve_template_files()  # as Airflow does where it keeps DAGs
    task.render_template_fields({"ti": Mock(), "dag": dag, "task": task, "ds": "2026-01-01"})
    return task


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
@pytest.mark.parametrize("is_parsed", [True, False])
def test_a_query_is_read_from_its_file_and_rendered(dag_of, is_parsed, native):
    with dag_of(native=native) as dag:
        query = DeltaSqlOperator(task_id="query", table="/t", query="daily.sql")
        statement = DeltaSqlOperator(task_id="sql", table="/t", sql="merge.sql", views={"feed": "/feed"})
        merge = DeltaMergeOperator(task_id="merge", table="/t", source="/feed", sql="merge.sql")
        source = DeltaMergeOperator(task_id="source", table="/t", source=SqlSource("daily.sql"), on="a")
    for task in (query, statement, merge, source):
        rendered(task, dag, is_parsed=is_parsed)
    assert query.statement().source == SqlSource(RENDERED)
    assert statement.statement().on == "target.day = '2026-01-01' AND source.id = target.id"
    assert merge.statement().on == "target.day = '2026-01-01' AND source.id = target.id"
    assert source.statement().source == SqlSource(RENDERED)


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
@pytest.mark.parametrize("is_parsed", [True, False])
def test_other_arguments_that_end_like_a_query_s_file_are_what_they_say(dag_of, is_parsed, native):
    with dag_of(native=native) as dag:
        query = DeltaSqlOperator(task_id="query", table="/lake/x.sql", query="SELECT 1", files="/tmp/lookup.sql")
        merge = DeltaMergeOperator(task_id="merge", table="/t", source="/lake/daily.sql", on="a", files="daily.sql")
    for task in (query, merge):
        rendered(task, dag, is_parsed=is_parsed)
    assert (query.statement().table, query.files) == ("/lake/x.sql", "/tmp/lookup.sql")
    assert (merge.statement().source.table, merge.files) == ("/lake/daily.sql", "daily.sql")


@pytest.mark.parametrize("is_parsed", [True, False])
def test_a_query_whose_file_is_missing_fails_when_the_task_runs(dag_of, is_parsed):
    with dag_of() as dag:
        task = DeltaSqlOperator(task_id="query", table="/t", query="dayly.sql")
    with pytest.raises(TemplateNotFound, match=r"dayly\.sql"):
        rendered(task, dag, is_parsed=is_parsed)


@pytest.mark.slow
def test_mapped_tasks_read_a_file_each(dag_of, empty_table, recording_submit, run_dag):
    submit = recording_submit()
    with dag_of() as dag:
        DeltaSqlOperator.partial(
            task_id="query",
            table=str(empty_table),
            views={"feed": "/feed"},
            conn_id="spark_local",
            spark_binary=str(submit.path),
        ).expand(query=["daily.sql", "SELECT 1"])
    run_dag(dag, logical_date=pendulum.datetime(2026, 1, 1))
    assert {call["spec"]["statement"]["source"]["query"] for call in submit.calls} == {RENDERED, "SELECT 1"}
