"""A DAG whose connections, variables and arguments hold secrets: ``python -m tests.hooks.secret_tasks SETTINGS`` runs it.

It is a separate process, so that its output is what Airflow prints for the tasks, with masking.
"""

import json
import os
import sys

import pendulum
from airflow.sdk import DAG

from airflow_delta.operators import (
    DeltaCheckpointOperator,
    DeltaOptimizeOperator,
    DeltaSqlOperator,
    DeltaWriteOperator,
    FileSource,
)
from tests.airflow_versions import DagBag, sync_bag_to_db


def secret_tasks(settings):
    """Tasks that succeed or fail while using secrets; the suffix of the name says which."""
    spark = {"conn_id": "spark_local", "conf": settings["conf"]}
    rows = {"query": "SELECT CAST(1 AS BIGINT) AS id", "views": {}}
    with DAG("keeps_secrets", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        variables = {"AZURE_STORAGE_SAS_TOKEN": "{{ var.value.variable }}"}
        rewritten = DeltaOptimizeOperator(
            task_id="spark_ok", table="flights", delta_conn_id="lake", env_vars=variables, **spark
        )
        kept = DeltaCheckpointOperator(task_id="worker_ok", table="flights", delta_conn_id="seen_lake", engine="worker")
        rewritten >> kept
        DeltaSqlOperator(task_id="spark_denied", table="flights", delta_conn_id="blobs", **rows, **spark)
        DeltaCheckpointOperator(task_id="worker_denied", table="flights", delta_conn_id="seen_blobs", engine="worker")
        DeltaSqlOperator(
            task_id="setting_refused",
            table="flights",
            delta_conn_id="lake",
            **rows,
            **spark | {"conf": {"spark.hadoop.fs.s3a.access.key": "{{ var.value.setting }}"}},
        )
        DeltaSqlOperator(
            task_id="userinfo_refused",
            table="s3://AKIA:{{ var.value.userinfo }}@lake/flights",
            delta_conn_id="lake",
            **rows,
            **spark,
        )
        DeltaWriteOperator(
            task_id="signature_refused",
            table="flights",
            source=FileSource("https://lake.blob.core.windows.net/f.csv?sv=1&sig={{ var.value.signature }}", format="csv"),
            delta_conn_id="lake",
            **spark,
        )
        DeltaWriteOperator(
            task_id="option_refused",
            table="flights",
            source=FileSource("t", format="jdbc", options={"password": "{{ var.value.option }}"}),
            delta_conn_id="lake",
            **spark,
        )
    return dag


if __name__ == "__main__":
    dag = secret_tasks(json.loads(sys.argv[1]))
    bag = DagBag(dag_folder=os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "tests", None)
    run = dag.test(logical_date=pendulum.datetime(2013, 1, 2))
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    sys.stdout.write(f"states: {json.dumps(states)}\n")
