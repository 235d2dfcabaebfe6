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
