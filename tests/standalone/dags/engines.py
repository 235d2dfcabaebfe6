"""One DAG per engine: Spark, with a sensor that waits in the triggerer; and the worker, without a JVM."""

from __future__ import annotations

import os
from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_delta.assets import delta_asset
from airflow_delta.operators import (
    AddConstraint,
    DeltaAlterOperator,
    DeltaCheckpointOperator,
    DeltaCleanUpLogOperator,
    DeltaCloneOperator,
    DeltaCompactLogOperator,
    DeltaConvertOperator,
    DeltaCreateOperator,
    DeltaMaintenanceOperator,
    DeltaManifestOperator,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaPinOperator,
    DeltaRecomputeStatisticsOperator,
    DeltaRestoreOperator,
    DeltaSqlOperator,
    DeltaTableHealthOperator,
    DeltaVacuumOperator,
    DeltaWriteOperator,
    SqlSource,
)
from airflow_delta.sensors import DeltaCommitSensor

NUMBERS, EVEN, COPY, PLAIN, MADE = (f"{os.environ['TABLES']}/{name}" for name in ("numbers", "even", "copy", "plain", "made"))
START = pendulum.datetime(2013, 1, 1)
PATIENT = {"retries": 3, "retry_delay": timedelta(seconds=2)}  # SQLite is sometimes locked

with DAG("by_spark", schedule=None, start_date=START, tags=["delta"], default_args=PATIENT):
    written = DeltaWriteOperator(
        task_id="write",
        table=NUMBERS,
        source=SqlSource("SELECT id, id % 2 AS rest, 'old' AS text FROM range(100)"),
        mode="append",
    )
    merged = DeltaMergeOperator(
        task_id="merge",
        table=NUMBERS,
        source=SqlSource("SELECT id, id % 2 AS rest, 'new' AS text FROM range(90, 110)"),
        on="target.id = source.id",
        asset=delta_asset("lake.numbers", NUMBERS),
    )
    copied = DeltaSqlOperator(
        task_id="sql",
        table=EVEN,
        query="SELECT * FROM numbers WHERE rest = 0",
        views={"numbers": NUMBERS},
        mode="overwrite",
    )
    optimized = DeltaOptimizeOperator(task_id="optimize", table=NUMBERS)
    checkpoint = DeltaCheckpointOperator(task_id="checkpoint", table=NUMBERS)
    vacuum = DeltaVacuumOperator(task_id="vacuum", table=NUMBERS)
    waited = DeltaCommitSensor(
        task_id="merge_is_there", table=NUMBERS, min_version=1, deferrable=True, poke_interval=1, timeout=600
    )
    written >> merged >> optimized >> checkpoint >> vacuum
    waited >> copied

with DAG("by_worker", schedule=None, start_date=START, tags=["delta"], default_args={"engine": "worker", **PATIENT}):
    pin = DeltaPinOperator(task_id="pin", tables={"numbers": NUMBERS})
    pinned = pin.version("numbers")
    (
        pin
        >> DeltaTableHealthOperator(task_id="health", table=NUMBERS)
        >> DeltaCheckpointOperator(task_id="checkpoint", table=NUMBERS, version=pinned)
        >> DeltaRecomputeStatisticsOperator(task_id="statistics", table=NUMBERS)
        >> DeltaRestoreOperator(task_id="restore", table=NUMBERS, version=0)
        >> DeltaMaintenanceOperator(task_id="maintenance", table=NUMBERS)
        >> DeltaVacuumOperator(task_id="vacuum", table=NUMBERS)
        >> DeltaCompactLogOperator(task_id="compact_log", table=NUMBERS)
        >> DeltaCleanUpLogOperator(task_id="clean_up_log", table=NUMBERS)
    )
    (
        pin
        >> DeltaCloneOperator(task_id="clone", table=COPY, source=NUMBERS, source_version=pinned)
        >> DeltaAlterOperator(task_id="alter", table=COPY, changes=[AddConstraint("few", "id < 1000")])
    )
    (
        DeltaConvertOperator(task_id="convert", table=PLAIN)
        >> DeltaManifestOperator(task_id="manifest", table=PLAIN)
        >> DeltaCreateOperator(
            task_id="create", table=MADE, columns={"id": "BIGINT NOT NULL"}, constraints={"few": "id < 1000"}
        )
    )
