"""Two tasks that conflict, and how their owners are notified.

Merges and writes resolve conflicts inside the job: they run again from the new version. A RESTORE cannot, as it would silently
undo what another task committed meanwhile; nor can two changes of the columns. These fail with a typed error that names the
winner and its DAG run, ``DeltaConflictNotifier`` notifies the owners, and the retry policy runs the losing task again after a
pause. The tasks here take only a moment, so most runs of this DAG see no conflict. No Spark is needed.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG, Param

from airflow_delta.notifications import DeltaConflictNotifier
from airflow_delta.operators import CommentColumn, DeltaAlterOperator, DeltaCreateOperator, DeltaRestoreOperator
from flights_demo.conflict_log import log_conflict
from flights_demo.tables import DEFAULT_ROOT, FLIGHTS_COLUMNS

TABLE = "{{ params.root }}/contested"

alert = DeltaConflictNotifier(then=log_conflict, tables="contested")

with DAG(
    dag_id="flights_conflict_alert",
    schedule=None,
    start_date=pendulum.datetime(2013, 1, 1),
    catchup=False,
    params={"root": Param(DEFAULT_ROOT, type="string", description="Where the table and the log of conflicts lie")},
    default_args={
        "retries": 2,
        "retry_delay": timedelta(seconds=2),  # first pause after a conflict, with jitter; later ones are longer
        "on_retry_callback": alert,
        "on_failure_callback": alert,
    },
    tags=["delta"],
    doc_md=__doc__,
) as dag:
    create = DeltaCreateOperator(
        task_id="create",
        table=TABLE,
        columns=FLIGHTS_COLUMNS,
        partition_by=["flight_date"],
        mode="ignore",
        engine="worker",
    )

    mistake = DeltaAlterOperator(
        task_id="mistake", table=TABLE, changes=[CommentColumn("dep_delay", "hours, says {{ run_id }}")], engine="worker"
    )

    roll_back = DeltaRestoreOperator(
        task_id="roll_back", table=TABLE, version="{{ ti.xcom_pull('create', key='delta_version') }}", engine="worker"
    )

    describe = DeltaAlterOperator(
        task_id="describe", table=TABLE, changes=[CommentColumn("carrier", "two letters, says {{ run_id }}")], engine="worker"
    )

    create >> mistake >> [roll_back, describe]
