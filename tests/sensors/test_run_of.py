"""Waiting for the commit of a DAG run: what names the run."""

from unittest.mock import Mock

import pytest
from airflow.sdk import DAG

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.sensors import DeltaCommitSensor

RUN = {"dag_id": "daily", "task_id": "silver", "run_id": "r1", "map_index": 3, "logical_date": "2013-01-01T00:00:00+00:00"}


def sensor(table, **run):
    return DeltaCommitSensor(task_id="wait", table=str(table.root), run_of=run)


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_each_member_of_a_run_may_be_a_template(table, context, native):
    table.write(run=RUN)
    with DAG("d", schedule=None, render_template_as_native_obj=native) as dag:
        waiting = sensor(table, dag_id="{{ 'daily' }}", run_id="{{ run_id }}", map_index="{{ ti.map_index }}")
    with pytest.raises(InvalidStatementError, match="a template that was not rendered"):
        waiting.requested_wait()
    waiting.render_template_fields({"ti": Mock(map_index=3), "dag": dag, "task": waiting, "run_id": "r1"})
    assert waiting.poke(context).xcom_value == 1


def test_what_is_no_member_of_a_run_is_refused_when_the_dag_is_parsed_although_others_are_templates(table):
    with pytest.raises(InvalidStatementError, match="besides them it may have task_id and map_index"):
        sensor(table, dag_id="daily", run_id="{{ run_id }}", mapped=3)


@pytest.mark.parametrize("date", [1356998400000, "1356998400000", "2013-01-01"])
def test_the_logical_date_of_a_run_is_a_time_like_every_other_one(table, context, date):
    table.write(run=RUN)
    assert sensor(table, dag_id="daily", logical_date=date).poke(context).xcom_value == 1


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ({"dag_id": "daily", "logical_date": True}, "logical_date of a run must be an ISO date or time, found True"),
        ({"dag_id": "daily", "logical_date": 10**18}, "the timestamp 1000000000000000000 is not valid: expected milliseconds"),
        ({"dag_id": 7, "run_id": "r1"}, "dag_id of a run must be a text, found 7"),
        ({"dag_id": "daily", "run_id": 20130101}, "run_id of a run must be a text, found 20130101"),
    ],
)
def test_what_no_run_has_is_refused_when_the_dag_is_parsed(table, run, text):
    with pytest.raises(InvalidStatementError, match=text):
        sensor(table, **run)
