"""Nightly maintenance of the flights tables: a health check, a dry run of VACUUM, and then the steps that are due.

One mapped task per table. If nothing is due, the worker only reads the log; only compacting small files starts Spark.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_delta.operators import DeltaMaintenanceOperator, DeltaTableHealthOperator, DeltaVacuumOperator
from flights_demo.tables import ARRIVALS, DEFAULT_ROOT, DELAYS, FLIGHTS

TABLES = [ARRIVALS, FLIGHTS, DELAYS]

with DAG(
    dag_id="flights_maintenance",
    schedule="30 3 * * *",
    start_date=pendulum.datetime(2013, 1, 1),
    catchup=False,
    max_active_runs=1,
    params={
        "root": Param(DEFAULT_ROOT, type="string", description="Where the tables lie"),
        "min_small_files": Param(
            10, type="integer", minimum=2, description="So many small files in one partition are compacted"
        ),
    },
    tags=["delta"],
    doc_md=__doc__,
) as dag:
    health = DeltaTableHealthOperator.partial(task_id="health", fail_on="error").expand(table=TABLES)

    would_delete = DeltaVacuumOperator.partial(task_id="would_delete", engine="worker", dry_run=True).expand(table=TABLES)

    maintenance = DeltaMaintenanceOperator.partial(
        task_id="maintenance",
        min_small_files="{{ params.min_small_files }}",
        trigger_rule="all_done",  # an unhealthy table must not stop the maintenance of the others
    ).expand(table=TABLES)

    health >> would_delete >> maintenance
