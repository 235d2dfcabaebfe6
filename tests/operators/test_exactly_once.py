"""The driver is killed for real; the table's log decides the outcome of its task."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.sdk import task as task_decorator
from airflow.utils.session import create_session
from deltalake import DeltaTable, write_deltalake

from airflow_delta.operators import DeltaMergeOperator, DeltaWriteOperator

SECONDS_OF_A_JOB = 600


@pytest.fixture
def table(tmp_path):
    """Three rows that another engine wrote, as version 0."""
    write_deltalake(str(tmp_path / "table"), pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    return tmp_path / "table"


@pytest.fixture
def feed(tmp_path):
    """Two rows, one of which is in the table."""
    write_deltalake(str(tmp_path / "feed"), pa.table({"id": [3, 4], "name": ["C", "D"]}))
    return tmp_path / "feed"


class Killer(threading.Thread):
    """Kills the first driver that works on a table, and then its JVM, as soon as a condition is true."""

    def __init__(self, table, happened):
        super().__init__(daemon=True)
        self.table, self.happened, self.killed = table, happened, None
        self.start()

    def run(self):
        deadline = time.monotonic() + SECONDS_OF_A_JOB
        driver = None
        while time.monotonic() < deadline and not (driver and self.happened()):
            driver = driver or self.driver()
            time.sleep(0.001 if driver else 0.1)
        os.kill(driver.pid, signal.SIGKILL)
        os.kill(driver.info["ppid"], signal.SIGKILL)
        self.killed = commit_files(self.table)

    def driver(self):
        for process in psutil.process_iter(["cmdline", "ppid"]):
            command = process.info["cmdline"] or []
            if "python" in "".join(command[:1]) and "/delta_" in "".join(command[1:2]) and str(self.table) in command[-1]:
                return process
        return None


def commit_files(table):
    return sorted(file.name for file in (table / "_delta_log").glob("*.json"))


def rows(table):
    return sorted(map(tuple, DeltaTable(str(table)).to_pyarrow_table().select(["id", "name"]).to_pandas().to_numpy().tolist()))


def tokens(table):
    actions = [
        json.loads(line) for name in commit_files(table) for line in (table / "_delta_log" / name).read_text().splitlines()
    ]
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    return [info["airflowDelta"]["token"] for info in infos if "airflowDelta" in info]


class LosesItsWorkerOnce(DeltaWriteOperator):
    """The worker dies with the driver: in the first try no process is left to read the log."""

    def _submit(self, spec, target, private, token, context):
        failure = super()._submit(spec, target, private, token, context)
        if context["ti"].try_number == 1:
            raise RuntimeError("the worker is lost")
        return failure


def clear(ti, task_id):
    with create_session() as session:
        wanted = (TaskInstance.dag_id == ti.dag_id, TaskInstance.run_id == ti.run_id, TaskInstance.task_id == task_id)
        clear_task_instances(session.query(TaskInstance).filter(*wanted).all(), session)


@pytest.mark.slow
def test_a_driver_killed_at_its_commit_has_committed_once_and_a_cleared_task_commits_again(table, feed, run_task):
    killer = Killer(table, lambda: len(commit_files(table)) > 1)
    results, sibling_runs = [], []

    def after_failure(context):
        clear(context["ti"], "sibling")

    def more(append):
        @task_decorator
        def sibling():
            sibling_runs.append(1)

        @task_decorator
        def observe(ti=None):
            results.append((ti.xcom_pull(append.task_id), commit_files(table), rows(table)))
            if len(results) == 1:
                clear(ti, append.task_id)

        sibling() >> append >> observe()

    run = run_task(
        lambda: LosesItsWorkerOnce(
            task_id="append",
            table=str(table),
            source=str(feed),
            conn_id="spark_local",
            on_retry_callback=after_failure,
        ),
        retries=1,
        more=more,
    )
    assert len(killer.killed) == 2
    assert len(sibling_runs) == 2
    before = [(1, "a"), (2, "b"), (3, "c")]
    once, twice = sorted([*before, (3, "C"), (4, "D")]), sorted([*before, *[(3, "C"), (4, "D")] * 2])
    result, commits, content = results[0]
    assert (result["version"], result["already_committed"], len(commits), content) == (1, True, 2, once)
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 2, False)
    assert rows(table) == twice
    assert len(set(tokens(table))) == len(tokens(table)) == 2


@pytest.mark.slow  # its Spark jobs take half a minute and more
def test_a_driver_killed_before_its_commit_commits_once_in_the_retry(table, feed, run_task):
    files = {path.name for path in table.rglob("*.parquet")}
    killer = Killer(table, lambda: any(path.name not in files for path in Path(table).rglob("*.parquet")))
    run = run_task(
        lambda: DeltaMergeOperator(
            task_id="merge",
            table=str(table),
            source=str(feed),
            on="target.id = source.id",
            conn_id="spark_local",
        ),
        retries=1,
    )
    assert len(killer.killed) == 1
    assert len(run.errors) == 1
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 1, False)
    assert rows(table) == [(1, "a"), (2, "b"), (3, "C"), (4, "D")]
    assert len(commit_files(table)) == 2
