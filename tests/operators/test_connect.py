"""Connections of type spark_connect: what the driver beside the worker receives, and how it ends."""

import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import psutil
import pytest

from airflow_delta.hooks import connect_driver
from airflow_delta.hooks.errors import DriverLostError, SparkTargetError
from airflow_delta.jobs.errors import ServerUnreachableError
from airflow_delta.operators import DeltaMergeOperator
from tests.operators.test_job import COMMIT

SHIM = """
import json, os, sys
job = json.loads(sys.stdin.readline())
conf = [f"--conf={name}={value}" for name, value in job["settings"].items()]
os.execv(sys.argv[1], [sys.argv[1], "--spec", job["spec"], "--py-files", job["archive"], *conf])
"""
RECORD = "Path(spec['statement']['table'] + '.seen').write_text(json.dumps(dict(os.environ) | {'pid': os.getpid()}))\n"
HANG = RECORD + "import time\ntime.sleep(600)"


@pytest.fixture
def connection(monkeypatch):
    """A connection of type spark_connect to a port where nobody listens."""
    value = {"conn_type": "spark_connect", "host": "localhost", "port": 1, "login": "ann", "password": "a/b=c"}
    monkeypatch.setenv("AIRFLOW_CONN_SERVER", json.dumps(value | {"extra": {"use_ssl": False}}))


@pytest.fixture
def driver(recording_submit, monkeypatch, connection):
    """A recording program in place of the driver."""

    def make(behavior=""):
        program = recording_submit(behavior)
        monkeypatch.setattr(connect_driver, "COMMAND", (sys.executable, "-c", SHIM, str(program.path)))
        return program

    return make


def merge(table, **arguments):
    return DeltaMergeOperator(
        task_id="merge", table=str(table), source="/lake/feed", on="target.id = source.id", conn_id="server", **arguments
    )


def seen(table):
    return json.loads(table.with_name(f"{table.name}.seen").read_text())


def kill_when_it_runs(table):
    def watch():
        deadline = time.monotonic() + 300
        while not table.with_name(f"{table.name}.seen").exists():
            if time.monotonic() > deadline:
                return  # a later signal would hit another test
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@pytest.fixture
def sigterm():
    """Airflow's task runner replaces the handler of this process."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def test_the_driver_gets_spec_archive_and_settings_and_the_servers_token_in_its_environment_alone(
    empty_table, driver, run_task, monkeypatch
):
    monkeypatch.setenv("AIRFLOW__SMTP__SMTP_PASSWORD", "worker-secret")
    program = driver(RECORD)
    settings = {"spark.sql.shuffle.partitions": 8}
    run = run_task(lambda: merge(empty_table, conf=settings, env_vars={"NEWS": "1"}, py_files=None))
    assert (run.state, run.version, run.result["metrics"], run.errors) == ("success", 1, {"rows": 1}, [])
    (call,) = program.calls
    environment = seen(empty_table)
    assert call["argv"][-1] == "--conf=spark.sql.shuffle.partitions=8"
    assert call["shipped"] == [True]
    assert call["spec"]["start_version"] == 0
    assert environment["SPARK_REMOTE"] == "sc://localhost:1/;user_id=ann;token=a%2Fb%3Dc;use_ssl=false"
    assert environment["NEWS"] == "1"
    assert "worker-secret" not in environment.values()
    assert "a%2Fb%3Dc" not in " ".join(call["argv"])
    assert not list(empty_table.rglob("_airflow_delta"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"jars": "/a.jar", "archives": "/a.zip"}, ["archives, jars"]),
        ({"conf": {"spark.executor.memory": "4g", "spark.sql.ansi.enabled": "true"}}, ["spark.executor.memory"]),
        ({"num_executors": 3, "deploy_mode": "cluster"}, ["num_executors, deploy_mode"]),
        ({"py_files": "/mine.py", "code_uri": "s3://lake/code"}, ["py_files, code_uri"]),
        ({"yarn_track_via_rm_api": True, "spark_binary": "spark3-submit"}, ["spark_binary, yarn_track_via_rm_api"]),
    ],
    ids=["jars", "conf", "resources", "code", "yarn"],
)
def test_what_only_a_submit_carries_is_refused_by_name_before_any_work(empty_table, driver, run_task, arguments, named):
    program = driver()
    run = run_task(lambda: merge(empty_table, **arguments), retries=1)
    (error,) = run.errors
    assert isinstance(error, SparkTargetError)
    assert f"cannot be given {named[0]}. Remedy: " in str(error)
    assert program.calls == []


def test_a_driver_that_is_lost_is_run_again_with_the_same_token_as_the_next_try(empty_table, driver, run_task):
    program = driver("if number == 1: os.kill(os.getpid(), 9)")
    run = run_task(lambda: merge(empty_table), retries=1)
    (error,) = run.errors
    first, second = (call["spec"]["origin"] for call in program.calls)
    assert isinstance(error, DriverLostError)
    assert "its process beside the worker ended (it was killed by SIGKILL)" in str(error)
    assert (run.state, first["token"] == second["token"]) == ("success", True)
    assert (first["record"]["try_number"], second["record"]["try_number"]) == (1, 2)


def test_a_driver_that_is_lost_after_its_commit_has_done_its_work(empty_table, driver, run_task):
    program = driver(COMMIT + "write_commit()\nos.kill(os.getpid(), 9)")
    run = run_task(lambda: merge(empty_table))
    assert (run.state, run.version, run.result["already_committed"], len(program.calls)) == ("success", 1, True, 1)


LEAVE = """
import subprocess
pid = subprocess.Popen(["sleep", "60"]).pid
Path(spec["statement"]["table"] + ".seen").write_text(json.dumps({"pid": pid}))
"""


def test_a_task_does_not_wait_for_a_process_that_its_driver_leaves_running(empty_table, driver, run_task):
    driver(COMMIT + "write_commit()\n" + LEAVE)
    run = run_task(lambda: merge(empty_table))
    psutil.Process(seen(empty_table)["pid"]).kill()  # fails if it has ended
    assert (run.state, run.version) == ("success", 1)


def test_a_driver_that_another_process_told_to_end_is_lost_and_says_so(empty_table, driver, run_task):
    driver(f"sys.exit({os.EX_TEMPFAIL})")
    [error] = run_task(lambda: merge(empty_table)).errors
    assert error.detail == "its process beside the worker ended (exit code 75), as it was told to by another process"


def test_a_killed_task_ends_its_driver_and_fails(empty_table, driver, run_task, sigterm):
    driver(HANG)
    kill_when_it_runs(empty_table)
    run = run_task(lambda: merge(empty_table))
    (error,) = run.errors
    assert (run.state, type(error)) == ("failed", DriverLostError)
    assert error.detail.startswith("the task was told to end, for which its process beside the worker ended (")
    assert not psutil.pid_exists(seen(empty_table)["pid"])


def test_a_driver_that_does_not_end_when_it_is_asked_to_is_killed(empty_table, driver, run_task, sigterm, monkeypatch):
    monkeypatch.setattr(connect_driver, "GRACE", 0.1)
    driver("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + HANG)
    kill_when_it_runs(empty_table)
    run = run_task(lambda: merge(empty_table))
    assert "killed by SIGKILL" in str(run.errors[0])
    assert not psutil.pid_exists(seen(empty_table)["pid"])


def test_a_task_that_takes_too_long_ends_its_driver(empty_table, driver, run_task):
    program = driver(HANG)
    run = run_task(lambda: merge(empty_table, execution_timeout=timedelta(seconds=4)))
    assert run.state == "failed"
    assert [
        process for process in psutil.process_iter(["cmdline"]) if str(program.path) in (process.info["cmdline"] or ())
    ] == []


def test_a_server_that_is_not_there_is_an_error_of_its_own_that_a_retry_may_mend(empty_table, connection, run_task):
    """With the real driver."""
    run = run_task(lambda: merge(empty_table), retries=1)
    assert [type(error) for error in run.errors] == [ServerUnreachableError] * 2
    text = str(run.errors[0])
    assert "expected a server of Spark Connect at sc://localhost:1, found none: UNAVAILABLE" in text
    assert "Remedy: start it" in text
    assert "a/b" not in text
