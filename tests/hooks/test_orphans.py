"""A retry ends the drivers of its own earlier tries, whatever state they are in, and no other process."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_delta.core.actions import Origin
from airflow_delta.core.statements import DeleteStatement
from airflow_delta.hooks import connect_driver, orphans
from airflow_delta.hooks.connect_driver import ConnectDriver
from airflow_delta.hooks.orphans import end_orphans
from airflow_delta.hooks.spark_target import SparkTarget
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.operators.submission import spec_argument

TOKEN, OTHER = uuid4().hex, uuid4().hex  # of this run alone: another one of these tests may go on beside it
DRIVER = "print('up', flush=True); input()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + DRIVER


LOCAL = SparkTarget(master="local", is_cluster_mode=False, yarn_webapp=None, namespace=None, binary=None)


def spec(token, folder=Path(), *, ids=1):
    """The arguments of a driver, as the operator makes them."""
    statement = DeleteStatement(table="/lake/t", where=f"id IN ({', '.join(map(str, range(ids)))})")
    text = JobSpec(statement=statement, origin=Origin(token=token), start_version=0).to_text()
    return ["--spec", spec_argument(text, token, folder, LOCAL)[0]]


@pytest.fixture
def start():
    """Start a process with arguments."""
    started = []

    def start(*arguments, text=DRIVER):
        process = subprocess.Popen([sys.executable, "-c", text, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def _no_long_grace(monkeypatch):
    monkeypatch.setattr(orphans, "GRACE", 0.5)


def test_a_driver_that_runs_one_that_is_stopped_and_one_that_is_deaf_are_ended(start):
    running, stopped, deaf = start(*spec(TOKEN)), start(*spec(TOKEN)), start(*spec(TOKEN), text=DEAF)
    stopped.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    assert end_orphans(TOKEN) == sorted(process.pid for process in (running, stopped, deaf))
    ended = [process.wait() for process in (running, stopped, deaf)]
    assert ended == [-signal.SIGTERM, -signal.SIGKILL, -signal.SIGKILL]


def test_a_driver_whose_spec_is_too_long_for_an_argument_is_ended_by_its_token_too(start, tmp_path):
    mine, other = (start(*spec(token, tmp_path, ids=40_000)) for token in (TOKEN, OTHER))
    assert end_orphans(TOKEN) == [mine.pid]
    assert (mine.wait(), other.poll()) == (-signal.SIGTERM, None)


def test_a_driver_over_spark_connect_that_was_stopped_is_ended_by_its_token(monkeypatch):
    monkeypatch.setattr(connect_driver, "COMMAND", (sys.executable, "-c", DRIVER))
    mine, other = (ConnectDriver(remote="sc://localhost", settings={}, env_vars={}, token=token) for token in (TOKEN, OTHER))
    with mine, other:
        process = mine._process
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert end_orphans(TOKEN) == [process.pid]
        assert (process.wait(), other._process.poll()) == (-signal.SIGKILL, None)


def test_where_python_has_no_handles_of_processes_nothing_is_ended(start, monkeypatch):
    driver = start(*spec(TOKEN))
    monkeypatch.delattr(os, "pidfd_open")
    assert end_orphans(TOKEN) == []
    assert driver.poll() is None


def test_processes_of_other_tasks_and_those_that_only_name_the_token_live_on(start):
    others = [start(*spec(OTHER)), start("-f", f"/lake/_airflow_delta/results/{TOKEN}/1.json"), start(spec(TOKEN)[1])]
    handles = len(list(Path("/proc/self/fd").iterdir()))
    assert end_orphans(TOKEN) == []
    assert [process.poll() for process in others] == [None, None, None]
    assert len(list(Path("/proc/self/fd").iterdir())) == handles
