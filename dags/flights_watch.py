"""Waits until another DAG has committed to the flights: the sensor in a DAG of its own, without a worker while it waits."""

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
    params={
        "root": Param(DEFAULT_ROOT, type="string", description="Where the tables lie"),
        "min_version": Param(
            1, type="integer", minimum=0, description="Wait for this version; the first merge makes version 1"
        ),
    },
    tags=["delta"],
    doc_md=__doc__,
) as dag:
    DeltaCommitSensor(
        task_id="wait_for_flights",
        table=FLIGHTS,
        min_version="{{ params.min_version }}",
        deferrable=True,
        poke_interval=2,
        timeout=600,
    )
