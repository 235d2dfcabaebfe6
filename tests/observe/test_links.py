"""Where a task's links lead, and how much history is pushed for them."""

import json
from types import SimpleNamespace

import pytest

from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe.links import MAX_BYTES, DeltaTableHistoryLink, SparkApplicationLink, history_payload

RUN = SimpleNamespace(dag_id="daily", task_id="group.load", run_id="manual__2013-01-01T00:00:00+00:00", map_index=-1)


def document(**arguments):
    outcome = OperationResult(table="s3://lake/t", version=2, read_version=1, operation="WRITE", committed=True)
    return ResultDocument(outcome=outcome, **arguments)


def operator(application_id=None, submitted=None, conn_id="spark_local"):
    outcome = document(application_id=application_id, history=(commit(2),))
    return SimpleNamespace(outcome=outcome, yarn_application=submitted, spark_conn_id=conn_id)


def commit(version, **more):
    record = {"dag_id": "daily", "task_id": "load", "run_id": "r", "sources": ["much"] * 10}
    return {"version": version, "timestamp": 5, "operation": "WRITE", "operationMetrics": {}, "airflowDelta": record, **more}


def test_the_history_names_the_runs_that_made_it():
    payload = history_payload(
        document(history=(commit(2), {"version": 1, "timestamp": 4}), table_facts={"version": 2, "files": 3})
    )
    assert (payload["table"], payload["version"], payload["facts"]) == ("s3://lake/t", 2, {"version": 2, "files": 3})
    assert payload["commits"] == [
        {"version": 2, "timestamp": 5, "operation": "WRITE", "run": {"dag_id": "daily", "task_id": "load", "run_id": "r"}},
        {"version": 1, "timestamp": 4, "run": {}},
    ]


def test_as_many_commits_are_kept_as_fit_into_an_xcom():
    long = {str(number): "9" * 1_000 for number in range(9)}
    payload = history_payload(document(history=tuple(commit(version, operationMetrics=long) for version in range(9, -1, -1))))
    assert [entry["version"] for entry in payload["commits"]] == [9, 8, 7, 6, 5]
    assert len(json.dumps(payload)) <= MAX_BYTES
    huge = commit(1, operation="x" * MAX_BYTES)
    assert history_payload(document(history=(huge,)))["commits"] == []


@pytest.mark.parametrize("name", ["findings", "steps"])
def test_as_many_notes_are_kept_as_fit_into_an_xcom(name):
    notes = [{"text": f"{number}", "paths": ["p" * 900] * 5} for number in range(25)]
    outcome = OperationResult(
        table="s3://lake/t", version=2, read_version=2, operation="HEALTH", committed=False, details={name: notes}
    )
    payload = history_payload(ResultDocument(outcome=outcome, history=(commit(2),)))
    assert payload[name] == notes[:10]
    assert payload["commits"] == []
    assert len(json.dumps(payload)) <= MAX_BYTES


def test_the_link_to_the_history_is_quoted_and_below_the_base_url(monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/prod/")
    link = DeltaTableHistoryLink().get_link(operator(), ti_key=RUN)
    assert link == (
        "https://airflow.example.org/prod/delta/dags/daily/tasks/group.load/history"
        "?run_id=manual__2013-01-01T00%3A00%3A00%2B00%3A00&map_index=-1"
    )


def test_there_is_no_link_where_nothing_was_delivered():
    assert DeltaTableHistoryLink().get_link(SimpleNamespace(outcome=document()), ti_key=RUN) == ""
    assert DeltaTableHistoryLink().get_link(SimpleNamespace(outcome=None), ti_key=RUN) == ""
    assert SparkApplicationLink().get_link(SimpleNamespace(outcome=None), ti_key=RUN) == ""


@pytest.mark.parametrize(
    ("application", "submitted", "link"),
    [
        (None, None, ""),
        ("local-1357000000000", None, ""),
        ("application_1_0007", None, "http://rm:8088/cluster/app/application_1_0007"),
        (None, "application_1_0008", "http://rm:8088/cluster/app/application_1_0008"),
        ("spark-0a1b", None, "http://history:18080/history/spark-0a1b/"),
        ('../"><script>', None, "http://history:18080/history/..%2F%22%3E%3Cscript%3E/"),
    ],
)
def test_the_spark_application_is_at_yarn_or_in_the_history_server(monkeypatch, application, submitted, link):
    extra = {"yarn_resourcemanager_webapp_address": "http://rm:8088/"}
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    monkeypatch.setenv("AIRFLOW__DELTA__SPARK_HISTORY_URL", "http://history:18080/")
    assert SparkApplicationLink().get_link(operator(application, submitted, "yarn"), ti_key=RUN) == link


def test_without_yarns_address_or_history_server_there_is_no_link(monkeypatch):
    assert SparkApplicationLink().get_link(operator("application_1_0007", conn_id="nowhere"), ti_key=RUN) == ""
