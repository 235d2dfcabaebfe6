"""A task is killed in the middle of its merge, as Airflow does it: by SIGTERM, whose handler calls ``on_kill``."""

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core import DeltaLog
from airflow_delta.operators import DeltaMergeOperator


def rows(table):
    return sorted(map(tuple, DeltaTable(str(table)).to_pyarrow_table().select(["id", "name"]).to_pandas().to_numpy().tolist()))


def parquet_files(table):
    return {path.relative_to(table) for path in table.rglob("*.parquet")}


def processes_on(table):
    """JVM and driver of a job that works on the table: both name it in their command line."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.pid != os.getpid() and any(f'"{table}"' in part for part in process.info["cmdline"] or [])
    ]


@pytest.fixture
def sigterm():
    """Airflow's task runner replaces the handler of this process."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def kill_when_something_is_staged(table):
    before = parquet_files(table)

    def watch():
        deadline = time.monotonic() + 300
        while parquet_files(table) == before:
            if time.monotonic() > deadline:
                return  # a signal would meet another test
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@pytest.mark.slow  # its Spark jobs take half a minute and more
def test_a_task_that_is_killed_during_its_merge_leaves_no_half_commit_and_commits_once_when_it_is_tried_again(
    tmp_path, run_task, sigterm
):
    table, feed = tmp_path / "table", tmp_path / "feed"
    write_deltalake(str(table), pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    write_deltalake(str(feed), pa.table({"id": [3, 4], "name": ["C", "D"]}))
    kill_when_something_is_staged(table)
    seen = []

    def look(_):
        _, alive = psutil.wait_procs(processes_on(table), timeout=120)
        documents = list((table / "_airflow_delta").rglob("*.json"))
        seen.append((alive, documents, rows(table), DeltaLog.for_table(str(table)).snapshot().version))

    run = run_task(
        lambda: DeltaMergeOperator(
            task_id="merge",
            table=str(table),
            source=str(feed),
            on="target.id = source.id",
            conn_id="spark_local",
            on_retry_callback=look,
        ),
        retries=1,
    )
    assert seen == [([], [], [(1, "a"), (2, "b"), (3, "c")], 0)]
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 1, False)
    assert rows(table) == [(1, "a"), (2, "b"), (3, "C"), (4, "D")]
    log = DeltaLog.for_table(str(table))
    log.vacuum(0, enforce_retention=False)
    assert parquet_files(table) == set(map(Path, log.snapshot().files()["path"].to_pylist()))
