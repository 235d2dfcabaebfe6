"""Operators over a real server of Spark Connect, which demands a token: as a job of spark-submit, but for where it runs."""

import json
import os
import signal
import threading
import time
from urllib.request import urlopen

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import ExpectationFailedError
from airflow_delta.hooks.errors import DriverLostError
from airflow_delta.jobs.errors import ServerDeniedError, SparkAnalysisError
from airflow_delta.operators import (
    DeltaDeleteOperator,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaSqlOperator,
    FileSource,
)
from tests.connect_server import connect_server
from tests.free_port import free_port

TOKEN = "open/sesame=1"
SECONDS = 600
BIRDS = [(1, "tit"), (2, "wren"), (3, "rook")]
MERGED = [(1, "tit"), (2, "wren"), (3, "ROOK"), (4, "swan")]

pytestmark = pytest.mark.slow  # a server, and jobs of spark-submit to compare with


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose operations can be seen: its port, and the address of its page."""
    page = free_port()
    settings = {"spark.connect.authenticate.token": TOKEN, "spark.ui.enabled": "true", "spark.ui.port": page}
    with connect_server(tmp_path_factory.mktemp("server"), settings) as address:
        yield int(address.rpartition(":")[2]), f"http://127.0.0.1:{page}/api/v1/applications"


@pytest.fixture
def connection(server, monkeypatch):
    """The connection to the server, with another token if given."""

    def make(token=TOKEN):
        value = {"conn_type": "spark_connect", "host": "localhost", "port": server[0], "password": token}
        monkeypatch.setenv("AIRFLOW_CONN_SERVER", json.dumps(value))

    make()
    return make


@pytest.fixture
def sigterm():
    """Airflow's task runner replaces the handler of this process."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def birds(place):
    for number, row in enumerate(BIRDS):
        columns = {"id": [row[0]], "name": [row[1]]}
        write_deltalake(str(place), pa.table(columns), mode="append" if number else "error")
    return place


@pytest.fixture
def table(tmp_path):
    """Three rows in three files and versions."""
    return birds(tmp_path / "table")


@pytest.fixture
def feed(tmp_path):
    write_deltalake(str(tmp_path / "feed"), pa.table({"id": [3, 4], "name": ["ROOK", "swan"]}))
    return tmp_path / "feed"


def merge(table, feed, operator=DeltaMergeOperator, *, on="target.id = source.id", **arguments):
    return operator(task_id="merge", table=str(table), source=str(feed), on=on, conn_id="server", **arguments)


def rows(table):
    columns = DeltaTable(str(table)).to_pyarrow_table().to_pydict()
    return sorted(zip(columns["id"], columns["name"], strict=True))


def tokens(table):
    infos = [entry["airflowDelta"]["token"] for entry in DeltaTable(str(table)).history() if "airflowDelta" in entry]
    return len(infos), len(set(infos))


def running_jobs(page):
    with urlopen(page) as answer:
        [application] = json.load(answer)
    with urlopen(f"{page}/{application['id']}/jobs?status=running") as answer:
        return json.load(answer)


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def drivers():
    processes = psutil.Process().children()
    return [process for process in processes if "airflow_delta.jobs.connect" in process.cmdline()]


def comparable(result):
    """A task's value without table, times and bytes of new rows, few of which Arrow writes over Spark Connect."""
    differing = ("timems", "targetbytesadded")
    metrics = {name: value for name, value in result["metrics"].items() if not name.lower().endswith(differing)}
    return result | {"metrics": metrics, "table": None, "sources": None}


@pytest.mark.parametrize(
    ("operator", "arguments", "left"),
    [
        (DeltaMergeOperator, {"on": "target.id = source.id"}, MERGED),
        (DeltaDeleteOperator, {"where": "id = 2"}, [BIRDS[0], BIRDS[2]]),
        (DeltaOptimizeOperator, {}, BIRDS),
    ],
    ids=["merge", "delete", "optimize"],
)
def test_a_statement_over_spark_connect_returns_what_a_submitted_job_returns(
    tmp_path, feed, connection, run_task, operator, arguments, left
):
    given = arguments | ({"source": str(feed)} if operator is DeltaMergeOperator else {})
    runs = {}
    for conn_id in ("server", "spark_local"):
        place = birds(tmp_path / conn_id)
        dag_id = f"{operator.__name__}-{conn_id}"
        runs[conn_id] = run_task(
            lambda place=place, conn_id=conn_id: operator(task_id="t", table=str(place), conn_id=conn_id, **given),
            dag_id=dag_id,
        )
        assert rows(place) == left
    over, submitted = runs["server"], runs["spark_local"]
    assert (over.state, over.version, over.errors) == ("success", 3, [])
    assert comparable(over.result) == comparable(submitted.result)
    [info, *_] = DeltaTable(str(tmp_path / "server")).history(1)
    assert info["job"]["jobName"].endswith(f"{operator.__name__}-server.t")


def test_typed_errors_and_expectations_are_those_of_a_submitted_job(table, feed, connection, run_task):
    def merge(**arguments):
        return DeltaMergeOperator(
            task_id="merge",
            table=str(table),
            source=str(feed),
            conn_id="server",
            **({"on": "target.id = source.id"} | arguments),
        )

    refused = run_task(lambda: merge(on="target.id = source.nothing"), dag_id="analysis")
    failed = run_task(lambda: merge(expect="name <> 'swan'"), dag_id="expectation")
    assert [type(run.errors[0]) for run in (refused, failed)] == [SparkAnalysisError, ExpectationFailedError]
    assert (failed.errors[0].rows, rows(table), DeltaLog.for_table(str(table)).snapshot().version) == (1, BIRDS, 2)


def test_another_token_is_refused_with_its_remedy_and_is_not_tried_again(table, feed, connection, run_task):
    connection(token="guess")
    run = run_task(lambda: merge(table, feed), retries=2)
    [error] = run.errors
    assert isinstance(error, ServerDeniedError)
    assert "UNAUTHENTICATED" in error.detail
    assert "guess" not in str(error)


class LosesItsWorkerOnce(DeltaMergeOperator):
    """The first try is lost after its job."""

    def _final_document(self, attempt, location, failure, context):
        if context["ti"].try_number == 1:
            raise RuntimeError("the worker is lost")
        return super()._final_document(attempt, location, failure, context)


def test_a_retry_finds_the_commit_of_the_try_before(table, feed, connection, run_task):
    run = run_task(lambda: merge(table, feed, LosesItsWorkerOnce), retries=1)
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 3, True)
    assert (rows(table), tokens(table)) == (MERGED, (1, 1))


@pytest.fixture
def slow_append(table, tmp_path):
    """A task that adds one row, and takes ten minutes until it is told to hurry."""
    delay = tmp_path / "delay.txt"
    delay.write_text("600000")
    query = "SELECT 4L AS id, 'swan' AS name FROM delay WHERE reflect('java.lang.Thread', 'sleep', BIGINT(value)) <> 'x'"

    def make(**arguments):
        views = {"delay": FileSource(str(delay), format="text")}
        return DeltaSqlOperator(task_id="append", table=str(table), query=query, views=views, conn_id="server", **arguments)

    return make, lambda: delay.write_text("1")


def test_a_killed_task_interrupts_its_operations_and_leaves_the_table_as_it_was(
    table, slow_append, connection, run_task, server, sigterm
):
    make, hurry = slow_append
    _, page = server
    seen = []

    def kill():
        wait_until(lambda: running_jobs(page))
        os.kill(os.getpid(), signal.SIGTERM)

    def look(_):
        wait_until(lambda: not running_jobs(page))
        seen.append((drivers(), rows(table), DeltaLog.for_table(str(table)).snapshot().version))
        hurry()

    threading.Thread(target=kill, daemon=True).start()
    run = run_task(lambda: make(on_retry_callback=look), retries=1)
    assert seen == [([], BIRDS, 2)]
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 3, False)
    assert (rows(table), tokens(table)) == ([*BIRDS, (4, "swan")], (1, 1))


def test_the_operations_of_a_driver_that_was_killed_end_with_the_next_try(table, slow_append, connection, run_task, server):
    make, hurry = slow_append
    _, page = server
    left = []

    def kill():
        wait_until(lambda: running_jobs(page))
        [driver] = drivers()
        driver.kill()

    def look(context):
        assert isinstance(context["exception"], DriverLostError)
        left.extend(job["jobId"] for job in running_jobs(page))
        hurry()

    threading.Thread(target=kill, daemon=True).start()
    run = run_task(lambda: make(on_retry_callback=look), retries=1)
    assert left
    assert running_jobs(page) == []
    assert (run.state, run.version, tokens(table)) == ("success", 3, (1, 1))
