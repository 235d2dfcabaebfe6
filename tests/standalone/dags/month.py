"""The daily flights pipeline of ``flights_daily``, changed so that days can run in parallel and in any order.

Silver keeps flights that never departed, without times. So a schedule that arrives late matches them and restores nothing, the
merges of two consecutive days commute, and the one that loses the race for their common partition runs again.
"""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path

import pendulum
from airflow.sdk import DAG, task

from airflow_delta.operators import (
    DeltaCreateOperator,
    DeltaMergeOperator,
    DeltaSqlOperator,
    DeltaWriteOperator,
    FileSource,
    MatchedUpdate,
    NotMatchedInsert,
    SqlSource,
    TableSource,
)
from flights_demo.feed import packaged_csv, write_feed
from flights_demo.tables import FLIGHTS_COLUMNS

ROOT = os.environ["TABLES"]
ARRIVALS, FLIGHTS, DELAYS = (f"{ROOT}/{name}" for name in ("arrivals", "flights", "delays"))
BRONZE, SILVER = (f"{{{{ ti.xcom_pull('{task_id}', key='delta_version') }}}}" for task_id in ("bronze", "silver"))

with DAG(
    dag_id="month",
    schedule="@daily",
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 30),
    catchup=False,
    default_args={"retries": 5, "retry_delay": timedelta(seconds=5)},
) as dag:

    @task
    def feed(day: str) -> str:
        """Put the day's feed into the landing directory."""
        return str(write_feed(packaged_csv("flights.csv.zip"), date.fromisoformat(day), Path(ROOT, "landing", day)))

    small = {"driver_memory": "512m", "conn_id": "spark_one"}
    landed = feed("{{ ds }}")
    bronze = DeltaWriteOperator(
        task_id="bronze",
        table=ARRIVALS,
        source=FileSource("{{ ti.xcom_pull('feed') }}", format="parquet"),
        mode="replace_where",
        replace_where="feed_date = DATE'{{ ds }}'",
        partition_by=["feed_date"],
        **small,
    )
    # The first runs race to create it; the losers find it created.
    silver_table = DeltaCreateOperator(
        task_id="silver_table",
        table=FLIGHTS,
        columns=FLIGHTS_COLUMNS,
        partition_by=["flight_date"],
        mode="ignore",
        engine="worker",
    )
    silver = DeltaMergeOperator(
        task_id="silver",
        table=FLIGHTS,
        source=SqlSource(
            "SELECT * EXCEPT (feed_date) FROM arrivals WHERE feed_date = DATE'{{ ds }}'",
            views={"arrivals": TableSource(ARRIVALS, version=BRONZE)},
        ),
        on="""
            target.flight_date = source.flight_date
            AND target.time_hour = source.time_hour AND target.carrier = source.carrier AND target.flight = source.flight
        """,
        clauses=[MatchedUpdate(condition="source.kind = 'actual'"), NotMatchedInsert()],
        **small,
    )
    gold = DeltaSqlOperator(
        task_id="gold",
        table=DELAYS,
        query="""
            SELECT flight_date, carrier, count(*) AS flights, avg(dep_delay) AS mean_dep_delay, avg(arr_delay) AS mean_arr_delay
            FROM flights WHERE flight_date = DATE'{{ ds }}' AND dep_time IS NOT NULL GROUP BY flight_date, carrier
        """,
        views={"flights": TableSource(FLIGHTS, version=SILVER)},
        mode="replace_where",
        replace_where="flight_date = DATE'{{ ds }}'",
        partition_by=["flight_date"],
        **small,
    )
    landed >> bronze >> silver >> gold
    silver_table >> silver
