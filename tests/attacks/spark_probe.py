"""A Spark job that runs statements on hostile tables: ``python -m tests.attacks.spark_probe ROOT SINK ATTACK...``.

Prints a line of JSON per attack and statement: ``attack``, ``statement``, ``outcome`` or ``failure``, ``cpu`` seconds of the
Python driver, ``seconds`` in total.
"""

import json
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import (
    UPSERT,
    DeleteStatement,
    MergeStatement,
    OptimizeStatement,
    SqlSource,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.jobs.errors import JobFailedError
from airflow_delta.jobs.run import run
from airflow_delta.jobs.session import job_session
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.io.worker_values import typed_worker_errors
from tests.attacks.attacks import ATTACKS
from tests.attacks.hostile_table import CANARY, HostileTable, LeakError

SECONDS_AT_MOST = 240
SUBMIT = (
    "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 pyspark-shell"
)

_OF_SPARKS_READER = "[FAILED_READ_FILE"
"""Spark's own errors, which the user gets when Spark's reader reads the files of a DataFrame."""

STATEMENTS = {
    "append": lambda table: WriteStatement(table=table, source=SqlSource("SELECT 10L AS id, 'x' AS s")),
    "delete": lambda table: DeleteStatement(table=table, where="id = 1"),
    "update": lambda table: UpdateStatement(table=table, assignments={"s": "'y'"}, where="id = 2"),
    "merge": lambda table: MergeStatement(
        table=table, source=SqlSource("SELECT 2L AS id, 'z' AS s"), on="target.id = source.id", clauses=UPSERT
    ),
    "optimize": lambda table: OptimizeStatement(table=table),
}


def main(root, sink, attacks):
    os.environ |= {"PYSPARK_SUBMIT_ARGS": SUBMIT, "AIRFLOW_DELTA_CANARY": CANARY}
    spark = job_session("attacks")
    spark.sparkContext.setLogLevel("OFF")
    root = Path(root)
    for attack in attacks:
        ATTACKS[attack](HostileTable(root, sink))
        (root / "table").rename(root / "original")
        for statement in ["read", *STATEMENTS]:
            shutil.copytree(root / "original", root / "table", symlinks=True)
            measured = _measured(spark, statement, root)
            sys.stdout.write(json.dumps({"attack": attack, "statement": statement, **measured}) + "\n")
            sys.stdout.flush()
            shutil.rmtree(root / "table")
        shutil.rmtree(root / "original")
    spark.stop()


def _measured(spark, statement, root):
    signal.alarm(SECONDS_AT_MOST)  # ends the process
    cpu, began = time.process_time(), time.monotonic()
    try:
        result = {"outcome": _run(spark, statement, str(root / "table"))}
        _check_no_canary(root / "table")
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        result = {"failure": traceback.format_exc()[-3_000:]}
    signal.alarm(0)
    return result | {"cpu": round(time.process_time() - cpu, 3), "seconds": round(time.monotonic() - began, 1)}


def _run(spark, statement, table):
    if statement == "read":
        try:
            with typed_worker_errors():
                rows = str(read_table(spark, DeltaLog.for_table(table).snapshot()).limit(10).collect())
        except DeltaError as error:
            return type(error).__name__
        except (PySparkException, Py4JJavaError) as error:
            if _OF_SPARKS_READER not in str(error):
                raise
            return _OF_SPARKS_READER
        if CANARY in rows:
            raise LeakError("the neighbor's rows were read")
        return "done"
    document = run(spark, JobSpec(statement=STATEMENTS[statement](table)))
    if CANARY in document.to_text():
        raise LeakError("the neighbor's rows in the result document")
    error = document.typed_error()
    if isinstance(error, JobFailedError):
        raise LeakError(f"an error of another kind: {error}\n{document.traceback}")
    return "done" if error is None else type(error).__name__


def _check_no_canary(table):
    """Raise if a file of the table contains the canary of the neighbor or of the environment."""
    for path in table.rglob("*.parquet"):
        if "_delta_log" in path.parts or path.is_symlink() or any(parent.is_symlink() for parent in path.parents):
            continue
        try:
            rows = pq.ParquetFile(path)
            columns = [name for name in rows.schema_arrow.names if pa.types.is_string(rows.schema_arrow.field(name).type)]
            held = rows.metadata.num_rows < 1_000_000 and CANARY in str(rows.read(columns).to_pydict())
        except (OSError, ValueError):
            continue
        if held:
            raise LeakError(f"{path.name} holds what it must not")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
