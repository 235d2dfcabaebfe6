"""Reacts to commits: after each commit to the flights, by any writer, a run updates the totals of their days.

The triggerer watches the table and sends an event for new versions. The run does not rely on events, which may come twice, late
or not at all: its first task reads from the table what is new to this DAG, and the half-hourly schedule runs without an event,
too. All downstream tasks read the one version that this task returned, and are skipped when there is nothing new.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

try:
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
except ImportError:  # before Airflow 3.2
    from airflow.timetables.assets import AssetOrTimeSchedule
    from airflow.timetables.trigger import CronTriggerTimetable

from airflow_delta.assets import delta_asset
from airflow_delta.operators import (
    DeltaCreateOperator,
    DeltaMergeOperator,
    DeltaNewCommitsOperator,
    MatchedUpdate,
    NotMatchedInsert,
    SqlSource,
    TableSource,
)
from flights_demo.tables import DEFAULT_ROOT, FLIGHTS

SILVER = delta_asset("flights.silver", f"{DEFAULT_ROOT}/flights", watch=True, poll_interval=10)
GOLD = delta_asset("flights.days", f"{DEFAULT_ROOT}/days")

DAYS = "{{ params.root }}/days"

TOTALS_OF_DAYS = """
SELECT flight_date, count(*) AS flights, avg(dep_delay) AS mean_dep_delay
FROM flights
GROUP BY flight_date
"""

with DAG(
    dag_id="flights_events",
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable("*/30 * * * *", timezone="UTC"), assets=[SILVER]),
    start_date=pendulum.datetime(2013, 1, 1),
    catchup=False,
    # One run at a time, so that no version is processed twice.
    max_active_runs=1,
    params={"root": Param(DEFAULT_ROOT, type="string", description="Where the tables lie")},
    tags=["delta"],
    doc_md=__doc__,
) as dag:
    # A run that an event started has no logical date: no {{ ds }} below.
    new_commits = DeltaNewCommitsOperator(task_id="new_commits", asset=SILVER, table=FLIGHTS)

    days_table = DeltaCreateOperator(
        task_id="days_table",
        table=DAYS,
        columns={"flight_date": "DATE", "flights": "BIGINT", "mean_dep_delay": "DOUBLE COMMENT 'minutes'"},
        mode="ignore",
        engine="worker",
    )

    days = DeltaMergeOperator(
        task_id="days",
        table=DAYS,
        source=SqlSource(
            TOTALS_OF_DAYS,
            views={"flights": TableSource(FLIGHTS, version="{{ ti.xcom_pull('new_commits', key='delta_version') }}")},
        ),
        on="target.flight_date = source.flight_date",
        clauses=[
            MatchedUpdate(
                condition="target.flights <> source.flights OR NOT target.mean_dep_delay <=> source.mean_dep_delay",
            ),
            NotMatchedInsert(),
        ],
        asset=GOLD,
    )

    new_commits >> days_table >> days
