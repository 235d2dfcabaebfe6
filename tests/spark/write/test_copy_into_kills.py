"""A load killed at every step: readers see all of it or nothing, and the retry makes each file's rows once."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_delta.core.actions import Origin
from tests.spark.write.killed_copy import end_process, load

pytestmark = [pytest.mark.slow, pytest.mark.classic(reason="forks the process that talks to the JVM, and starts JVMs")]

PROJECT = Path(__file__).parents[3]
BEFORE, AFTER = "before", "after"
COPY, LOAD, WRITE = (f"airflow_delta.spark.write.{name}" for name in ("copy_into", "file_load", "write"))
LOADED, LOG = "_airflow_delta/loaded/", "_delta_log/"
STEPS = {
    "before it reads what was loaded": (LOAD, "read_loaded_files", BEFORE, ""),
    "before it lists the folder": (COPY, "find_new_files", BEFORE, ""),
    "when it knows the new files": (COPY, "find_new_files", AFTER, ""),
    "before Spark writes rows": (WRITE, "write_rows", BEFORE, ""),
    "when the rows are written": (WRITE, "write_rows", AFTER, ""),
    "before it writes down the files": (LOAD, "write_loaded_files", BEFORE, ""),
    "before the list of files has its name": ("os", "link", BEFORE, LOADED),
    "when the list of files has its name": ("os", "link", AFTER, LOADED),
    "when it has written down the files": (LOAD, "write_loaded_files", AFTER, ""),
    "before the commit has its name": ("os", "link", BEFORE, LOG),
    "when the commit has its name": ("os", "link", AFTER, LOG),
    "before it sweeps": (COPY, "sweep_loaded_files", BEFORE, ""),
    "when all is done": (COPY, "sweep_loaded_files", AFTER, ""),
}
COMMITTED = ("when the commit has its name", "before it sweeps", "when all is done")


class Lake:
    """A table and a folder that all steps share; each brings files of its own."""

    def __init__(self, spark, root):
        self.spark, self.table, self.folder = spark, str(root / "table"), root / "in"
        self.folder.mkdir()
        self.numbers = []
        self.put()
        self.load()

    def put(self):
        number = len(self.numbers)
        self.numbers.append(number)
        (self.folder / f"{number}.csv").write_text(f"{number}\n")

    def load(self, **run):
        return load(self.spark, self.table, self.folder, **run)

    def rows(self):
        return sorted(DeltaTable(self.table).to_pyarrow_table()["id"].to_pylist())

    def check(self, kill, *, is_committed):
        """Another engine reads all or nothing; the retry finds or makes the commit, and no file is loaded twice or left out."""
        before, version = self.rows(), DeltaTable(self.table).version()
        self.put()
        self.put()
        run = {"origin": Origin(token=uuid.uuid4().hex), "start_version": version}
        kill(run)
        assert self.rows() == (self.numbers if is_committed else before)
        self.put()  # comes before the retry
        retry = self.load(**run)
        assert (retry.version, retry.committed, retry.already_committed) == (version + 1, True, is_committed)
        assert self.rows() == (self.numbers[:-1] if is_committed else self.numbers)


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    lake = Lake(spark, tmp_path_factory.mktemp("killed"))
    yield lake
    lake.load()
    assert lake.rows() == lake.numbers
    assert lake.load().committed is False


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


def forked(lake, step, run):
    """How a fork of this process ended that loads, and is killed at a step. It talks to the JVM while this process waits."""
    child = os.fork()
    if child == 0:
        try:
            kill_at(*STEPS[step])
            lake.load(**run)
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


@pytest.mark.parametrize("step", STEPS)
def test_a_load_killed_at_any_step_loads_each_file_once(lake, step):
    def kill(run):
        assert forked(lake, step, run) == -signal.SIGKILL

    lake.check(kill, is_committed=step in COMMITTED)


@pytest.mark.parametrize(("kind", "status"), [("python", -signal.SIGKILL), ("java", 1)])
def test_a_load_whose_driver_or_jvm_is_killed_while_spark_writes_loads_each_file_once(lake, kind, status):
    def kill(run):
        command = [sys.executable, "-m", "tests.spark.write.killed_copy", lake.table, str(lake.folder), kind]
        given = json.dumps([run["origin"].token, run["start_version"]])
        ended = subprocess.run([*command, given], cwd=PROJECT, check=False, capture_output=True, text=True)
        assert ended.returncode == status, ended.stderr[-2000:]

    lake.check(kill, is_committed=False)
