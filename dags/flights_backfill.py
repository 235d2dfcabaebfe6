"""Repeats the daily report for past days, from the versions that the live runs of those days committed.

    airflow backfill create --dag-id flights_backfill --from-date 2013-01-01 --to-date 2013-01-31 --max-active-runs 4

Every day reads the version of the flights that the live run of that day committed, not the table as later runs left it: so the
report is the same today, tomorrow and after a clear. ``--dag-run-conf '{"delta_versions": {"flights": 17}}'`` chooses another
version. No vacuum deletes the files that a day reads before its run has ended.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_delta.operators import DeltaPinOperator, DeltaSqlOperator, ProducedBy, TableSource
from flights_demo.report import DELAYS_BY_CARRIER
from flights_demo.tables import DEFAULT_ROOT, FLIGHTS

DELAYS_AGAIN = "{{ params.root }}/delays_again"

with DAG(
    dag_id="flights_backfill",
    schedule="@daily",
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 30),
    # Days may run concurrently: runs that replace different partitions do not conflict. See docs/backfills.md.
    max_active_runs=4,
    catchup=False,
    params={"root": Param(DEFAULT_ROOT, type="string", description="Where the tables lie")},
    tags=["delta"],
    doc_md=__doc__,
) as dag:
    pin = DeltaPinOperator(
        task_id="pin",
        tables={"flights": FLIGHTS},
        as_of=ProducedBy(dag_id="flights_daily", task_id="silver", logical_date="{{ logical_date }}"),
    )

    gold = DeltaSqlOperator(
        task_id="gold",
        table=DELAYS_AGAIN,
        query=DELAYS_BY_CARRIER,
        views={"flights": TableSource(FLIGHTS, version=pin.version("flights"))},
        mode="replace_where",
        replace_where="flight_date = DATE'{{ ds }}'",
        partition_by=["flight_date"],
    )

    pin >> gold
