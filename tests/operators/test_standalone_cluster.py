"""Jobs on a standalone Spark cluster, in client mode; one of its processes is killed in the middle of a statement.

``CLUSTER_KILLS`` says how often each is killed: each time with other settings, at another moment of the statement.
"""

import json
import math
import os
import random
import re
import shutil
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial

import duckdb
import psutil
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.hooks.errors import DriverLostError
from airflow_delta.operators import (
    UPSERT,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaVacuumOperator,
    DeltaWriteOperator,
    MatchedDelete,
)
from tests.free_port import free_port
from tests.spark_cluster import QUICK_TO_START, SparkCluster, command_of
from tests.standalone.commits import origins

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("CLUSTER_KILLS", "1"))
STATEMENT_SECONDS = 300
PAUSE_SECONDS = 20

FILES, ROWS_OF_A_FILE = 8, 50_000
ROWS = FILES * ROWS_OF_A_FILE
TASKS = {"merge": 9, "optimize": 2}
"""Number of Spark tasks in a statement on these files, minus one: when this many are done, it has not committed."""
COLUMNS = "id, name, number, text"
BASE = f"""SELECT range AS id, 'row ' || range AS name, range % 31 AS number,
                  md5(range::VARCHAR) || sha256(range::VARCHAR) AS text FROM range({ROWS})"""
# Every file holds rows that change, and rows that go.
FEED = f"""SELECT range * 50 AS id, 'new ' || range AS name, range % 7 AS number, md5(range::VARCHAR) AS text,
                  range % 14 = 0 AS gone FROM range({ROWS // 50 + 2_000})"""

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "768m",
    "spark.executor.extraJavaOptions": QUICK_TO_START,
    "spark.driver.extraJavaOptions": QUICK_TO_START,
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
}
DYNAMIC_ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.maxExecutors": "2",
}
MODES = {
    "plain": {},
    "speculation": SPECULATION,
    "dynamic allocation": DYNAMIC_ALLOCATION,
    "speculation, dynamic allocation": SPECULATION | DYNAMIC_ALLOCATION,
}
OTHER_EACH_TIME = re.compile("Ms$|Bytes|[sS]ize")
VICTIMS = ("master", "worker", "executor", "driver", "paused executor")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster, and the connection ``spark_cluster`` that names it."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster, pytest.MonkeyPatch.context() as patch:
        connection = {"conn_type": "spark", "host": cluster.url, "extra": {"deploy-mode": "client"}}
        patch.setenv("AIRFLOW_CONN_SPARK_CLUSTER", json.dumps(connection))
        patch.delenv("PYTHONPATH", raising=False)  # a driver would hand it to the executors
        yield cluster


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A table of several files, a feed for it, and as ``merge.parquet`` and ``optimize.parquet`` the rows after each."""
    folder = tmp_path_factory.mktemp("original")
    with duckdb.connect() as connection:
        connection.sql(f"CREATE TABLE base AS {BASE}")
        connection.sql(f"CREATE TABLE feed AS {FEED}")
        for number in range(FILES):
            part = connection.sql(f"FROM base WHERE id // {ROWS_OF_A_FILE} = {number}").to_arrow_table()
            write_deltalake(str(folder / "table"), part, mode="append")
        write_deltalake(str(folder / "feed"), connection.sql("FROM feed").to_arrow_table())
        connection.sql(
            f"""SELECT {COLUMNS} FROM base ANTI JOIN feed USING (id)
                UNION ALL SELECT {COLUMNS} FROM feed WHERE NOT gone OR id >= {ROWS}"""
        ).write_parquet(str(folder / "merge.parquet"))
        connection.sql("FROM base").write_parquet(str(folder / "optimize.parquet"))
    return folder


@pytest.fixture
def tables(original, tmp_path):
    """A copy of the table and its feed."""
    for name in ("table", "feed"):
        shutil.copytree(original / name, tmp_path / name)
    return tmp_path


def differences(table, expected):
    """How many of these rows are not in the table, and how many are there beyond them, as deltalake and duckdb read it."""
    found = DeltaTable(str(table)).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("found", found)
        [lost] = connection.sql(f"SELECT count(*) FROM (FROM '{expected}' EXCEPT ALL SELECT {COLUMNS} FROM found)").fetchone()
        [more] = connection.sql(f"SELECT count(*) FROM (SELECT {COLUMNS} FROM found EXCEPT ALL FROM '{expected}')").fetchone()
    return {"lost": lost, "doubled": more}


def spark_on(conn_id, mode="plain"):
    """Where an operator runs its job."""
    conf = SETTINGS | MODES[mode] | {"spark.pyspark.python": sys.executable}
    return {"conn_id": conn_id, "conf": conf, "driver_memory": "1g", "execution_timeout": timedelta(seconds=STATEMENT_SECONDS)}


def merge(tables, **spark):
    return DeltaMergeOperator(
        task_id="merge",
        table=str(tables / "table"),
        source=str(tables / "feed"),
        on="target.id = source.id",
        clauses=[MatchedDelete(condition="source.gone"), *UPSERT],
        **spark,
    )


def optimize(tables, **spark):
    """Sort the whole table along two columns."""
    return DeltaOptimizeOperator(task_id="optimize", table=str(tables / "table"), z_order_by=["number", "id"], **spark)


STATEMENTS = {"merge": merge, "optimize": optimize}


def reported(run):
    """What a task returned, without durations, sizes of files, and where its table lies."""
    result = {name: value for name, value in run.result.items() if name not in {"table", "sources", "details"}}
    result["metrics"] = {name: value for name, value in result["metrics"].items() if not OTHER_EACH_TIME.search(name)}
    return run.state, run.version, run.errors, result


def test_operators_do_and_report_on_the_cluster_what_they_do_and_report_locally(cluster, tables, original, run_task, tmp_path):
    shutil.copytree(tables, tmp_path / "local", ignore=shutil.ignore_patterns("local"))
    steps = {
        "write": lambda folder, spark: DeltaWriteOperator(
            task_id="write", table=str(folder / "written"), source=str(folder / "feed"), **spark
        ),
        "merge": lambda folder, spark: merge(folder, **spark),
        "optimize": lambda folder, spark: DeltaOptimizeOperator(task_id="optimize", table=str(folder / "table"), **spark),
        "vacuum": lambda folder, spark: DeltaVacuumOperator(
            task_id="vacuum",
            table=str(folder / "table"),
            retention_hours=0,
            enforce_retention=False,
            dry_run=False,
            **spark,
        ),
    }
    for name, make in steps.items():
        tasks = cluster.finished_tasks()
        there = run_task(partial(make, tables, spark_on("spark_cluster")), dag_id=f"{name}_there")
        assert name == "vacuum" or cluster.finished_tasks() > tasks  # few files are the driver's own work
        here = run_task(partial(make, tmp_path / "local", spark_on("spark_local")), dag_id=f"{name}_here")
        assert reported(there) == reported(here)
        assert there.state == "success"
    for folder in (tables, tmp_path / "local"):
        assert differences(folder / "table", original / "merge.parquet") == {"lost": 0, "doubled": 0}
        assert DeltaTable(str(folder / "written")).count() == DeltaTable(str(folder / "feed")).count()


def test_a_master_that_does_not_answer_is_a_typed_error_that_is_worth_another_try(tables, run_task, monkeypatch):
    connection = {"conn_type": "spark", "host": f"spark://127.0.0.1:{free_port()}", "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_NOBODY", json.dumps(connection))
    (error,) = run_task(lambda: merge(tables, **spark_on("spark_nobody"))).errors
    assert isinstance(error, DriverLostError)
    assert (error.retryable, error.detail) == (True, "spark-submit failed (exit code 1)")
    assert DeltaTable(str(tables / "table")).version() == FILES - 1


class Mishap(threading.Thread):
    """Happens once to the next job on a table: when a random number of its tasks have finished, in between or at their end.

    Attributes:
        victim: What was killed; None while it has not happened.
        was_committed: Whether the statement was, when it happened.
        progress: How far the statement was.
    """

    def __init__(self, cluster, table, kind, chance, tasks):
        super().__init__(daemon=True)
        self.cluster, self.table, self.kind, self.chance, self.tasks = cluster, table, kind, chance, tasks
        self.victim, self.was_committed, self.progress = None, None, "not begun"
        self.next_commit = table / "_delta_log" / f"{DeltaTable(str(table)).version() + 1:020d}.json"
        self.files_before, self.executors_before = len(self.files()), cluster.executors()
        self.tasks_before = cluster.finished_tasks()
        self.job_has_ended = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.job_has_ended.set()
        self.join()

    def run(self):
        tasks = self.tasks_before + self.chance.randrange(self.tasks)
        self.wait_until(lambda: set(self.cluster.executors()).difference(self.executors_before))
        self.wait_until(lambda: self.cluster.finished_tasks() >= tasks)
        if tasks < self.tasks_before + self.tasks // 2:  # in the middle of a task; the last ones could be over by then
            self.wait_until(self.next_commit.exists, self.chance.uniform(0, 1))
        while self.victim is None and not self.job_has_ended.wait(0.01):
            tasks, files = self.cluster.finished_tasks() - self.tasks_before, len(self.files()) - self.files_before
            self.progress, self.was_committed = f"{tasks} tasks, {files} new files", self.next_commit.exists()
            with suppress(psutil.NoSuchProcess, IndexError):  # it has just ended, and another one begins
                self.victim = self.happen()

    def happen(self):
        """SIGKILL; what was killed."""
        if self.kind == "master":
            self.cluster.kill("master")
            return self.kind
        if self.kind == "worker":
            worker = self.chance.choice(self.cluster.workers_with_executors())
            self.cluster.kill(worker)
            return worker
        processes = processes_of_driver(self.table) if self.kind == "driver" else self.cluster.executors()
        process = self.chance.choice(processes)
        victim = f"{self.kind} ({process.name()})"
        if self.kind != "paused executor":
            process.kill()
            return victim
        process.suspend()
        self.wait_until(self.next_commit.exists, PAUSE_SECONDS)
        victim += ", until the commit" if self.next_commit.exists() else f", for {PAUSE_SECONDS} s"
        process.resume()
        return victim

    def files(self):
        return list(self.table.rglob("*.parquet"))

    def wait_until(self, is_so, seconds=math.inf):
        deadline = time.monotonic() + seconds
        while not is_so() and time.monotonic() < deadline and not self.job_has_ended.wait(0.05):
            pass


def processes_of_driver(table):
    """JVM and Python of a job on the table: both name it in their command line."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if any(f'"{table}"' in part for part in command_of(process))
    ]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_statement_commits_once_and_loses_or_doubles_no_row(
    cluster, original, tables, run_task, capsys, statement, victim, number
):
    table, expected = tables / "table", original / f"{statement}.parquet"
    chance = random.Random(f"{victim} {number}")
    mode = "speculation" if victim == "paused executor" else [*MODES][(VICTIMS.index(victim) + number) % len(MODES)]
    with Mishap(cluster, table, victim, chance, TASKS[statement]) as mishap:
        run = run_task(lambda: STATEMENTS[statement](tables, **spark_on("spark_cluster", mode)), retries=2)

    found = differences(table, expected)
    made = [origin.token for _, origin in origins(table) if origin.token is not None]
    errors = [getattr(error, "code", repr(error)) for error in run.errors]
    folders = len([*table.glob("write-*")])
    with capsys.disabled():
        outcome = f"errors {errors}, commits {len(made)}, rows {found}, folders of files {folders}"
        sys.stdout.write(f"\n{statement}, {victim} {number}: {mishap.victim} after {mishap.progress}; {mode}; {outcome}\n")
    assert mishap.victim is not None
    assert not mishap.was_committed
    assert (run.state, found, len(made)) == ("success", {"lost": 0, "doubled": 0}, 1)
    assert DeltaTable(str(table)).version() == run.version == FILES
    # Spark waits for ever where the master is lost while it takes an idle executor away (as in SPARK-54088).
    waits_for_ever = victim == "master" and "dynamic allocation" in mode
    assert all(
        (isinstance(error, DeltaError) and error.retryable)
        or (waits_for_ever and type(error).__name__ == "AirflowTaskTimeout")  # which lies elsewhere in each Airflow
        for error in run.errors
    )
    log = DeltaLog.for_table(str(table))
    log.vacuum(0, enforce_retention=False)
    left = {str(path.relative_to(table)) for path in table.rglob("*.parquet") if "_delta_log" not in path.parts}
    assert left == {*log.snapshot().files()["path"].to_pylist()}
