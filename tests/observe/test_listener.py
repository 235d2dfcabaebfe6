"""The metrics of a task, and that they never disturb it."""

import socket
import time

import pendulum
import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import Stats
from airflow.sdk import DAG
from deltalake import write_deltalake

from airflow_delta.core.errors import CommitAttemptsExhaustedError, ConcurrentAppendError, TableNotFoundError
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe import listener
from airflow_delta.operators import DeltaVacuumOperator
from tests.airflow_versions import send_metrics


class Task:
    outcome = None


class TaskInstance:
    def __init__(self, outcome=None):
        self.task = Task()
        self.task.outcome = outcome
        self.stats_tags = {"dag_id": "daily", "task_id": "load"}


class StatsD:
    """A StatsD server; ``lines`` are what it was sent, once the sender is done."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.05)

    @property
    def lines(self):
        received = []
        time.sleep(0.05)
        while True:
            try:
                received += self.socket.recv(65_535).decode().splitlines()
            except TimeoutError:
                return [line for line in received if "delta." in line]


@pytest.fixture
def statsd(monkeypatch):
    server = StatsD()
    settings = {
        "STATSD_ON": "True",
        "STATSD_HOST": "127.0.0.1",
        "STATSD_PORT": str(server.socket.getsockname()[1]),
        "STATSD_INFLUXDB_ENABLED": "True",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
    send_metrics()
    yield server
    server.socket.close()
    send_metrics(are_sent=False)


def outcome(**arguments):
    defaults = {"table": "s3://lake/flights", "version": 3, "read_version": 2, "operation": "MERGE", "committed": True}
    return OperationResult(**(defaults | arguments))


def test_a_commit_tells_its_duration_size_and_retries_and_the_table_its_own(statsd):
    document = ResultDocument(
        outcome=outcome(
            metrics={"numTargetRowsInserted": 5, "numTargetFilesAdded": 2, "numTargetBytesAdded": 700},
            attempts=3,
            conflicts=(
                {"version": 1, "operation": "WRITE", "rule": None, "job": None},
                {"version": 2, "operation": "WRITE", "rule": "DELTA_CONCURRENT_APPEND", "job": None},
            ),
        ),
        duration_ms=1_234,
        table_facts={"version": 3, "files": 9, "bytes": 9_000, "small_files": 8},
    )
    listener.on_task_instance_success(None, TaskInstance(document))
    tags = "dag_id=daily,task_id=load,table=lake/flights,operation=MERGE"
    assert sorted(statsd.lines) == sorted(
        [
            f"airflow.delta.commit.retries,{tags}:2|c",
            f"airflow.delta.commit.conflict,{tags},type=DELTA_CONCURRENT_APPEND:1|c",
            f"airflow.delta.commit.duration,{tags}:1234.000000|ms",
            f"airflow.delta.commit.rows,{tags}:5|c",
            f"airflow.delta.commit.files,{tags}:2|c",
            f"airflow.delta.commit.bytes,{tags}:700|c",
            "airflow.delta.table.version,table=lake/flights:3|g",
            "airflow.delta.table.files,table=lake/flights:9|g",
            "airflow.delta.table.bytes,table=lake/flights:9000|g",
            "airflow.delta.table.small_files,table=lake/flights:8|g",
        ]
    )


def test_each_of_several_statements_is_counted_for_its_own_table(statsd):
    met = ({"version": 2, "operation": "WRITE", "rule": "DELTA_CONCURRENT_APPEND", "job": None},)
    statements = {
        "silver": outcome(metrics={"numTargetRowsInserted": 5}, attempts=2, conflicts=met),
        "gold": outcome(table="s3://lake/gold", operation="WRITE", metrics={"numOutputRows": 7}),
        "earlier": outcome(table="s3://lake/gold", operation="DELETE", metrics={"numDeletedRows": 9}, already_committed=True),
        "checkpoint": outcome(operation="CHECKPOINT", committed=False),
    }
    details = {"statements": {name: result.to_json() for name, result in statements.items()}}
    whole = outcome(operation="SEQUENCE", attempts=2, conflicts=met, details=details, metrics={"numStatements": 4})
    listener.on_task_instance_success(None, TaskInstance(ResultDocument(outcome=whole, duration_ms=1_234)))
    tags = "dag_id=daily,task_id=load,table=lake/"
    assert sorted(statsd.lines) == [
        f"airflow.delta.commit.conflict,{tags}flights,operation=MERGE,type=DELTA_CONCURRENT_APPEND:1|c",
        f"airflow.delta.commit.duration,{tags}flights,operation=SEQUENCE:1234.000000|ms",
        f"airflow.delta.commit.retries,{tags}flights,operation=MERGE:1|c",
        f"airflow.delta.commit.rows,{tags}flights,operation=MERGE:5|c",
        f"airflow.delta.commit.rows,{tags}gold,operation=WRITE:7|c",
    ]


@pytest.mark.parametrize("result", [outcome(committed=False), outcome(already_committed=True)])
def test_what_was_not_committed_now_is_not_counted_again(statsd, result):
    listener.on_task_instance_success(None, TaskInstance(ResultDocument(outcome=result, duration_ms=5)))
    assert statsd.lines == []


def test_a_lost_race_is_counted_by_type_and_table(statsd):
    conflict = ConcurrentAppendError(table="abfss://c@account/lake/t", read_version=1, winning_version=2, path="f")
    listener.on_task_instance_failed(None, TaskInstance(), conflict)
    exhausted = CommitAttemptsExhaustedError(table="/lake/t", read_version=1, attempts=4)
    listener.on_task_instance_failed(None, TaskInstance(), exhausted)
    tags = "dag_id=daily,task_id=load,table="
    assert statsd.lines == [
        f"airflow.delta.commit.conflict,{tags}c_account/lake/t,type=DELTA_CONCURRENT_APPEND:1|c",
        f"airflow.delta.commit.conflict,{tags}/lake/t,type=DELTA_MAX_COMMIT_RETRIES_EXCEEDED:1|c",
        f"airflow.delta.commit.retries,{tags}/lake/t:3|c",
    ]


@pytest.mark.parametrize("error", [None, "a text", RuntimeError("x"), TableNotFoundError(table="t")])
def test_other_failures_are_not_counted(statsd, error):
    listener.on_task_instance_failed(None, TaskInstance(), error)
    assert statsd.lines == []


@pytest.mark.parametrize("instance", [object(), TaskInstance(), TaskInstance("no document"), TaskInstance(ResultDocument())])
def test_tasks_of_others_are_none_of_its_business(statsd, instance):
    listener.on_task_instance_success(None, instance)
    assert statsd.lines == []


def test_nothing_that_goes_wrong_reaches_the_task(monkeypatch):
    def fail(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(Stats, "incr", fail)
    conflict = ConcurrentAppendError(table="t", read_version=1, winning_version=2, path="f")
    listener.on_task_instance_failed(None, TaskInstance(), conflict)


def test_a_task_of_a_real_dag_run_sends_metrics_through_the_plugin(statsd, run_dag, tmp_path):
    table = tmp_path / "lake" / "flights"
    write_deltalake(table, pa.table({"id": [1, 2]}))
    with DAG("daily", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        DeltaVacuumOperator(task_id="vacuum", table=str(table), engine="worker", dry_run=False)
    assert run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2)).state == "success"
    lines, tag = statsd.lines, str(table)[-100:]
    assert f"airflow.delta.table.version,table={tag}:0|g" in lines
    assert f"airflow.delta.table.small_files,table={tag}:1|g" in lines
    assert len(lines) == 4
