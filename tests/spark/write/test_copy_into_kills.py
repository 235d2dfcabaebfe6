"""A load killed at every step: readers see all of it or nothing, and the retry makes each file's rows once."""

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from tests.spark.write.killed_copy import TOKEN, end_process, load

PROJECT = Path(__file__).parents[3]
BEFORE, AFTER = "before", "after"
COPY, WRITE = "airflow_delta.spark.write.copy_into", "airflow_delta.spark.write.write"
LOADED, LOG = "_airflow_delta/loaded/", "_delta_log/"
STEPS = {
    "before it reads what was loaded": (COPY, "read_loaded_files", BEFORE, ""),
    "before it lists the folder": (COPY, "find_new_files", BEFORE, ""),
    "when it knows the new files": (COPY, "find_new_files", AFTER, ""),
    "before Spark writes rows": (WRITE, "write_rows", BEFORE, ""),
    "when the rows are written": (WRITE, "write_rows", AFTER, ""),
    "before it writes down the files": (COPY, "write_loaded_files", BEFORE, ""),
    "before the list of files has its name": ("os", "link", BEFORE, LOADED),
    "when the list of files has its name": ("os", "link", AFTER, LOADED),
    "when it has written down the files": (COPY, "write_loaded_files", AFTER, ""),
    "before the commit has its name": ("os", "link", BEFORE, LOG),
    "when the commit has its name": ("os", "link", AFTER, LOG),
    "before it sweeps": (COPY, "sweep_loaded_files", BEFORE, ""),
    "when all is done": (COPY, "sweep_loaded_files", AFTER, ""),
}
COMMITTED = ("when the commit has its name", "before it sweeps", "when all is done")


def put(folder, *numbers):
    folder.mkdir(exist_ok=True)
    for number in numbers:
        (folder / f"{number}.csv").write_text(f"{number}\n")


def rows(table):
    return sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist())


def kill_at(module, name, moment, target):
    """End this process before or after the first call of a function (on a path with ``target`` in it)."""
    owner = importlib.import_module(module)
    function = getattr(owner, name)

    def killed(*given, **named):
        is_meant = target in "".join(str(value) for value in given[1:2]) if target else True
        if moment == BEFORE and is_meant:
            end_process()
        answer = function(*given, **named)
        if is_meant:
            end_process()
        return answer

    setattr(owner, name, killed)


def killed_run(spark, table, folder, step):
    """How a fork of this process ended that loads, and is killed at a step. It talks to the JVM while this process waits."""
    child = os.fork()
    if child == 0:
        try:
            kill_at(*STEPS[step])
            load(spark, table, folder, origin=Origin(token=TOKEN), start_version=0)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(step)


def check_retried(spark, table, folder, *, is_committed):
    """Another engine reads all or nothing; the retry finds or makes the commit, and no file is loaded twice or left out."""
    assert rows(table) == ([1, 2, 3, 4] if is_committed else [1, 2])
    put(folder, 5)  # comes before the retry
    retry = load(spark, table, folder, origin=Origin(token=TOKEN), start_version=0)
    assert (retry.version, retry.committed, retry.already_committed) == (1, True, is_committed)
    load(spark, table, folder)
    assert rows(table) == [1, 2, 3, 4, 5]
    assert load(spark, table, folder).committed is False


@pytest.mark.slow
@pytest.mark.classic(reason="forks the process that talks to the JVM")
@pytest.mark.parametrize("step", STEPS)
def test_a_load_killed_at_any_step_loads_each_file_once(spark, table, tmp_path, step):
    folder = tmp_path / "in"
    put(folder, 1, 2)
    load(spark, table, folder)
    put(folder, 3, 4)
    assert killed_run(spark, table, folder, step) == -signal.SIGKILL
    check_retried(spark, table, folder, is_committed=step in COMMITTED)


@pytest.mark.slow
@pytest.mark.classic(reason="starts a JVM of its own")
@pytest.mark.parametrize(("kind", "status"), [("python", -signal.SIGKILL), ("java", 1)])
def test_a_load_whose_driver_or_jvm_is_killed_while_spark_writes_loads_each_file_once(spark, table, tmp_path, kind, status):
    folder = tmp_path / "in"
    put(folder, 1, 2)
    load(spark, table, folder)
    put(folder, 3, 4)
    command = [sys.executable, "-m", "tests.spark.write.killed_copy", table, str(folder), kind]
    ended = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr[-2000:]
    check_retried(spark, table, folder, is_committed=False)
