"""A driver does not outlive the JVM that started it, nor the worker beside which it runs."""

import subprocess
import sys
import time

import psutil
import pytest

from airflow_delta.jobs.worker_processes import VARIABLE

DRIVER = (
    "import time; from airflow_delta.jobs.orphan import exit_with_jvm; exit_with_jvm(); print('up', flush=True); time.sleep(60)"
)
PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]).wait()"


@pytest.mark.parametrize("from_jvm", [True, False], ids=["spark-submit", "python"])
def test_a_driver_ends_with_its_jvm_but_not_with_a_shell(monkeypatch, from_jvm):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1") if from_jvm else monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, DRIVER], stdout=subprocess.PIPE, text=True)
    parent.stdout.readline()
    (driver,) = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    time.sleep(0 if from_jvm else 2)
    gone, alive = psutil.wait_procs([driver], timeout=60 if from_jvm else 0)
    for process in alive:
        process.kill()
    assert (len(gone), len(alive)) == ((1, 0) if from_jvm else (0, 1))


WATCHING = "import time; from airflow_delta.jobs.orphan import exit_with_worker; {before}; exit_with_worker(); time.sleep(60)"
UP = "print('up', flush=True)"
FULL = """import os
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b'.' * 4096)
except BlockingIOError:
    os.set_blocking(2, True)
"""
WORKER = """
import os, subprocess, sys
from airflow_delta.jobs.worker_processes import WorkerProcesses
environment = os.environ | WorkerProcesses.of(os.getpid()).to_environment() | eval(sys.argv[2])
subprocess.Popen([*sys.argv[3:], sys.executable, "-c", sys.argv[1]], env=environment).wait()
"""


@pytest.fixture
def start_worker():
    """Start a worker that starts a driver, perhaps by another program; both processes."""
    started = []

    def start(driver, *wrapper, environment=None):
        command = [sys.executable, "-c", WORKER, driver, repr(environment or {}), *wrapper]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert worker.stdout.readline() == "up\n"
        processes = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
        started.extend(processes)
        return worker, processes[-1]

    yield start
    for process in started:
        if process.is_running():
            process.kill()


@pytest.mark.parametrize(
    "wrapper", [(), ("sh", "-c", '"$@"; exit $?', "sh"), ("setsid", "--wait")], ids=["child", "wrapper", "session"]
)
def test_a_driver_ends_with_its_worker_and_says_why_whatever_program_lies_between(start_worker, wrapper):
    worker, driver = start_worker(WATCHING.format(before=UP), *wrapper)
    worker.kill()
    gone, _ = psutil.wait_procs([driver], timeout=30)
    assert gone == [driver]
    _, said = worker.communicate()
    assert f"The process {worker.pid} of the Airflow worker is gone: this driver ends" in said


def test_a_driver_ends_though_nobody_reads_what_it_says(start_worker):
    worker, driver = start_worker(f"exec({FULL!r}); " + WATCHING.format(before=UP))
    worker.kill()
    gone, _ = psutil.wait_procs([driver], timeout=30)
    assert gone == [driver]


def test_a_driver_that_begins_behind_the_end_of_its_worker_ends_at_once(start_worker):
    waits = "import os, psutil; worker = psutil.Process().parent()"
    worker, driver = start_worker(WATCHING.format(before=f"{waits}; {UP}; worker.wait()"))
    worker.kill()
    worker.wait()
    gone, _ = psutil.wait_procs([driver], timeout=30)
    assert gone == [driver]


def test_a_driver_lives_as_long_as_its_worker_and_on_when_it_is_told_no_worker(start_worker):
    driver_of_live = start_worker(WATCHING.format(before=UP))[1]
    worker, driver_on_its_own = start_worker(WATCHING.format(before=UP), environment={VARIABLE: ""})
    worker.kill()
    worker.wait()
    gone, alive = psutil.wait_procs([driver_of_live, driver_on_its_own], timeout=3)
    assert (gone, len(alive)) == ([], 2)
