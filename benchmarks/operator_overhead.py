"""What ``DeltaWriteOperator`` adds to a bare ``SparkSubmitOperator`` that runs the same job.

Both append the same feed to a copy of the same table, with the same script, archive and statement, on the same local Spark, in
DAG runs of one task in this process; they take turns in going first. Ours additionally resolves the connection, makes the
token, reads the log, builds the archive, reads the result and pushes XComs.

    python -m benchmarks.operator_overhead [--rounds 5] [--connect]

With ``--connect``: a MERGE of ``MERGED`` rows by ``DeltaMergeOperator`` over Spark Connect, on a server that has already run
``WARM_UP_MERGES`` of them, and by spark-submit, each compared with an empty Python task. Over Spark Connect it may take
``CONNECT_TARGET`` seconds more than the empty task.

Our modules are compiled first, as pip does on installation.

Prints wall-clock and CPU seconds of each side, with the medians; "worker" is the CPU time of this process alone, without the
job's. The exit code is 1 when the medians differ by more than ``TARGET``, or when a table does not hold the rows of both sides.
"""

# ruff: noqa: PLC0415 - Airflow reads its home when it is imported, so it is imported late

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.actions import Origin
from airflow_delta.core.statements import FileSource, WriteStatement
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.shipping.ship import ShippedCode, local_code
from benchmarks.bytecode import compile_modules
from benchmarks.process_tree import Meter

TARGET = 1.5
"""Seconds that the operator may add."""

CONNECT_TARGET = 2.0
"""Seconds that a MERGE over Spark Connect may take more than an empty task."""

ROWS = 10_000
MERGED = 100
CONF = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
WARM_UP_ROUNDS = 1
WARM_UP_MERGES = 5
"""Merges that warm up the Spark Connect server; one that has run for an hour has done more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One run of one side.

    Attributes:
        seconds: Wall-clock seconds.
        cpu: CPU seconds of this process and all its children.
        worker: CPU seconds of this process alone.
    """

    seconds: float
    cpu: float
    worker: float


def main() -> int:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connect", action="store_true", help="a MERGE over Spark Connect instead")
    given = parser.parse_args()
    compile_modules()
    with tempfile.TemporaryDirectory(prefix="operator-overhead-") as directory:
        return (run_over_connect if given.connect else run)(Path(directory), given.rounds)


def run(directory: Path, rounds: int) -> int:
    """Measure in ``directory``; see ``main``."""
    make_airflow(directory / "home")
    feed, base = directory / "feed.parquet", directory / "base"
    pq.write_table(pa.table({"id": list(range(ROWS))}), feed)
    write_deltalake(base, pa.table({"id": list(range(ROWS))}))
    code = local_code(directory, "write")
    measured: dict[str, list[Round]] = {"ours": [], "bare": []}
    wrong = 0
    for number in range(WARM_UP_ROUNDS + rounds):
        for side in ("ours", "bare") if number % 2 else ("bare", "ours"):
            table = directory / f"{side}_{number}"
            shutil.copytree(base, table)
            statement = WriteStatement(table=str(table), source=FileSource(str(feed), format="parquet"))
            done = measured_run(_dag(table.name, statement, code if side == "bare" else None))
            wrong += DeltaTable(table).to_pyarrow_dataset().count_rows() != 2 * ROWS
            if number >= WARM_UP_ROUNDS:
                measured[side].append(done)
    added = report("ours", measured["ours"]) - report("bare", measured["bare"])
    print(f"the operator adds {added:.2f} s (target: at most {TARGET} s); tables with wrong rows: {wrong}")
    return int(added > TARGET or wrong > 0)


def run_over_connect(directory: Path, rounds: int) -> int:
    """Measure in ``directory``; see ``main``."""
    from tests.connect_server import connect_server

    make_airflow(directory / "home")
    base, feed = directory / "base", directory / "feed"
    write_deltalake(base, pa.table({"id": list(range(ROWS))}))
    write_deltalake(feed, pa.table({"id": list(range(ROWS - MERGED // 2, ROWS + MERGED // 2))}))
    measured: dict[str, list[Round]] = {"empty": [], "connect": [], "submit": []}
    wrong = 0
    print(f"load before: {os.getloadavg()}")
    with connect_server(directory) as address:
        os.environ["AIRFLOW_CONN_CONNECT"] = json.dumps({"conn_type": "spark_connect", "host": address})
        for number in range(WARM_UP_MERGES - WARM_UP_ROUNDS):
            table = directory / f"warm_up_{number}"
            shutil.copytree(base, table)
            measured_run(_merge_dag("connect", table, feed))
        for number in range(WARM_UP_ROUNDS + rounds):
            for side in sorted(measured, reverse=bool(number % 2)):
                table = directory / f"{side}_{number}"
                shutil.copytree(base, table)
                done = measured_run(_merge_dag(side, table, feed))
                expected = ROWS if side == "empty" else ROWS + MERGED // 2
                wrong += DeltaTable(table).to_pyarrow_dataset().count_rows() != expected
                if number >= WARM_UP_ROUNDS:
                    measured[side].append(done)
    print(f"load after: {os.getloadavg()}")
    medians = {side: report(side, done) for side, done in measured.items()}
    added = medians["connect"] - medians["empty"]
    print(f"Spark Connect adds {added:.2f} s (target: at most {CONNECT_TARGET} s); tables with wrong rows: {wrong}")
    print(f"spark-submit adds {medians['submit'] - medians['empty']:.2f} s")
    return int(added > CONNECT_TARGET or wrong > 0)


def _merge_dag(side: str, table: Path, feed: Path) -> Any:
    """A DAG of one task: a MERGE over Spark Connect or by spark-submit, or an empty one."""
    import pendulum
    from airflow.sdk import DAG, task

    from airflow_delta.operators import DeltaMergeOperator

    with DAG(table.name, schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        if side == "empty":
            task(lambda: None, task_id="empty")()
        else:
            arguments = {"conn_id": "connect"} if side == "connect" else {"conf": dict(CONF)}
            DeltaMergeOperator(task_id="merge", table=str(table), source=str(feed), on="target.id = source.id", **arguments)
    return dag


def make_airflow(home: Path) -> None:
    """Set up a separate Airflow for this process."""
    (home / "dags").mkdir(parents=True)
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}',
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYSPARK_PYTHON": sys.executable,
    }
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    with create_session() as session:
        session.merge(DagBundleModel(name="benchmark"))


def _dag(name: str, statement: WriteStatement, code: ShippedCode | None) -> Any:
    """A DAG of one task: our operator, or, given the job's code, a bare ``SparkSubmitOperator`` that runs it."""
    import pendulum
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import DAG

    from airflow_delta.operators import DeltaWriteOperator

    with DAG(name, schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        if code is None:
            DeltaWriteOperator(task_id="write", table=statement.table, source=statement.source, conf=dict(CONF))
        else:
            token = uuid.uuid4().hex
            spec = JobSpec(
                statement=statement,
                origin=Origin(token=token),
                start_version=0,
                result_uri=f"{statement.table}/_airflow_delta/results/{token}/1.json",
            )
            SparkSubmitOperator(
                task_id="write",
                application=code.application,
                py_files=code.archive,
                application_args=["--spec", spec.to_text()],
                conf=dict(CONF),
            )
    return dag


def measured_run(dag: Any) -> Round:
    """One run of a DAG."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    bag = DagBag(dag_folder=os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "benchmark", None)
    began = time.process_time()
    with Meter() as meter:
        state = dag.test().state
    worker = time.process_time() - began
    if str(getattr(state, "value", state)) != "success":
        raise RuntimeError(f"the run of {dag.dag_id} ended as {state}")
    return Round(seconds=meter.seconds, cpu=meter.cpu, worker=worker)


def report(side: str, rounds: list[Round]) -> float:
    """Print one side's figures and return its median in seconds."""
    medians: Mapping[str, float] = {
        name: statistics.median(getattr(measured, name) for measured in rounds) for name in ("seconds", "cpu", "worker")
    }
    each_round = ", ".join(f"{measured.seconds:.2f}" for measured in rounds)
    cpu, worker = medians["cpu"], medians["worker"]
    print(f"{side}: median {medians['seconds']:.2f} s ({each_round}), CPU {cpu:.2f} s, of it in the worker {worker:.2f} s")
    return medians["seconds"]


if __name__ == "__main__":
    sys.exit(main())
