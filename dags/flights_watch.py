"""Waits until another DAG has merged into the flights: a deferred sensor, which occupies no worker slot while it waits.

The time condition counts every merge since the start of the run's data interval, including one before the first poke.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_delta.sensors import DeltaCommitSensor
from flights_demo.tables import DEFAULT_ROOT, FLIGHTS

with DAG(
    dag_id="flights_watch",
    schedule=None,
    start_date=pendulum.datetime(2013, 1, 1),
    catchup=False,
    params={"root": Param(DEFAULT_ROOT, type="string", description="Folder of the tables")},
    tags=["delta"],
    doc_md=__doc__,
) as dag:
    DeltaCommitSensor(
        task_id="wait_for_flights",
        table=FLIGHTS,
        after_timestamp="{{ data_interval_start }}",
        operations="MERGE",
        deferrable=True,
        poke_interval=2,
        timeout=600,
    )
