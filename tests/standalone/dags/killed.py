"""DAGs that run while processes are killed: a Spark job that appends 100 rows, a watched table, a deferred sensor."""

from __future__ import annotations

import os
from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_delta.assets import delta_asset
from airflow_delta.operators import DeltaSqlOperator
from airflow_delta.sensors import DeltaCommitSensor

ROOT = os.environ["TABLES"]
START = pendulum.datetime(2013, 1, 1)
PATIENT = {"retries": 5, "retry_delay": timedelta(seconds=2)}

with DAG("appended", schedule="@daily", start_date=START, end_date=START.add(days=300), catchup=False, default_args=PATIENT):
    DeltaSqlOperator(
        task_id="append",
        table=f"{ROOT}/appended",
        query="SELECT '{{ run_id }}' AS run, id FROM range(100)",
        views={},
        mode="append",
        driver_memory="512m",
        conn_id="spark_one",
    )

with DAG("waiting", schedule=None, start_date=START, default_args=PATIENT):
    DeltaCommitSensor(task_id="wait", table=f"{ROOT}/burst", min_version=20, deferrable=True, poke_interval=1, timeout=900)

watched = delta_asset("burst", f"{ROOT}/burst", watch=True, start="earliest", poll_interval=0.5)
# Airflow begins to watch when it parses the file of an unpaused DAG: this one is never paused.
with DAG("watched", schedule=watched, start_date=START, is_paused_upon_creation=False):
    # Whichever event started the run, the task itself finds out what is new to it.
    DeltaCommitSensor(task_id="look", table=f"{ROOT}/burst", min_version=0)
