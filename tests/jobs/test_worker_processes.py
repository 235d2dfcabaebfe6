"""A driver recognizes its worker's processes, whether ancestors or not, and never mistakes another process for one."""

import os
import subprocess
import sys

import pytest

from airflow_delta.jobs.worker_processes import VARIABLE, WorkerProcesses

IDLE = "print('up', flush=True); input()"
RENAMED = "open('/proc/self/comm', 'w').write('a) Z 1 (b'); " + IDLE


@pytest.fixture
def start():
    """Start a process that runs a text until its input closes."""
    started = []

    def start(text=IDLE):
        process = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def as_driver_sees(worker):
    return WorkerProcesses.from_environment(worker.to_environment())


@pytest.mark.parametrize("text", [IDLE, RENAMED], ids=["plain", "with a name of parentheses"])
def test_processes_are_gone_when_one_of_them_was_killed_whether_it_was_reaped_or_not(start, text):
    task, supervisor = start(), start(text)
    worker = as_driver_sees(WorkerProcesses.of(task.pid, supervisor.pid))
    assert worker.gone() is None
    supervisor.kill()
    os.waitid(os.P_PID, supervisor.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert worker.gone() == supervisor.pid
    supervisor.wait()
    assert worker.gone() == supervisor.pid


def test_another_process_with_the_id_of_one_that_is_gone_is_not_taken_for_it(start):
    process = start()
    worker = WorkerProcesses.of(process.pid)
    earlier = WorkerProcesses(machine=worker.machine, start_times={process.pid: worker.start_times[process.pid] - 1})
    assert as_driver_sees(earlier).gone() == process.pid


def test_a_process_that_had_ended_before_is_none_to_wait_for(start):
    process = start()
    process.kill()
    process.wait()
    assert WorkerProcesses.of(process.pid) is None
    assert list(WorkerProcesses.of(os.getpid(), process.pid).start_times) == [os.getpid()]


def test_a_driver_elsewhere_or_that_is_told_nothing_knows_no_worker():
    here = WorkerProcesses.of(os.getpid())
    elsewhere = WorkerProcesses(machine="another boot pid:[1]", start_times=here.start_times)
    assert as_driver_sees(here) == here
    assert as_driver_sees(elsewhere) is None
    assert WorkerProcesses.from_environment({VARIABLE: ""}) is None
    assert WorkerProcesses.from_environment({}) is None
