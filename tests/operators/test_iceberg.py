"""Tables that Iceberg's readers see, changed by tasks: what the results say, what the readers see, and what fails no task."""

import json
import os
from pathlib import Path

import boto3
import pendulum
import pytest
from airflow.sdk import DAG

from airflow_delta.core import DeltaLog
from airflow_delta.operators import (
    UPSERT,
    DeltaAlterOperator,
    DeltaCreateOperator,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaRestoreOperator,
    DeltaSqlOperator,
    DeltaWriteOperator,
    SetProperties,
    SqlSource,
)
from tests.core.iceberg_readers import rows_of_iceberg
from tests.core.object_stores import moto_server  # noqa: F401 - a fixture

PROPERTIES = {"delta.enableIcebergCompatV2": "true", "delta.universalFormat.enabledFormats": "iceberg"}
CREATE = """
    CREATE TABLE delta.`{}` (id BIGINT, `the day` DATE, items ARRAY<STRING>) USING delta PARTITIONED BY (`the day`)
    TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg')
"""
ROWS = "SELECT id, DATE'2024-05-01' + CAST(id AS INT) % 2 AS `the day`, array(CAST(id AS STRING), NULL) AS items FROM range({})"
SPARK = {"conn_id": "spark_local"}


def create(table):
    columns = "id BIGINT, `the day` DATE, items ARRAY<STRING>"
    arguments = {"columns": columns, "partition_by": ["the day"], "properties": PROPERTIES, "engine": "worker"}
    return DeltaCreateOperator(task_id="make", table=str(table), **arguments)


def alter(table, color="red"):
    changes = [SetProperties({"color": color})]
    return DeltaAlterOperator(task_id="alter", table=str(table), changes=changes, engine="worker")


def rows_of_delta(table):
    return sorted(DeltaLog.for_table(str(table)).snapshot().to_arrow().read_all().to_pylist(), key=lambda row: row["id"])


@pytest.mark.slow  # its Spark jobs take half a minute
def test_results_of_jobs_say_what_was_written_and_icebergs_readers_see_the_rows(tmp_path, run_dag, xcom):
    table = str(tmp_path / "orders")
    feed = SqlSource(ROWS.format("3, 9"))
    with DAG("iceberg_jobs", schedule=None, start_date=pendulum.datetime(2024, 5, 1)) as dag:
        (
            DeltaSqlOperator(task_id="make", sql=CREATE.format(table), **SPARK)
            >> DeltaWriteOperator(task_id="write", table=table, source=SqlSource(ROWS.format(6)), **SPARK)
            >> DeltaMergeOperator(
                task_id="merge", table=table, source=feed, on="target.id = source.id", clauses=UPSERT, **SPARK
            )
            >> DeltaOptimizeOperator(task_id="optimize", table=table, min_files=2, **SPARK)
            >> DeltaRestoreOperator(task_id="restore", table=table, version=2, engine="worker")
        )
    done = run_dag(dag, logical_date=pendulum.datetime(2024, 5, 2))
    assert str(done.state.value) == "success"
    results = {task: xcom(done, task) for task in ("make", "write", "merge", "optimize", "restore")}
    assert [result["warnings"] for result in results.values()] == [[]] * 5
    told = {task: result["details"]["iceberg"] for task, result in results.items()}
    assert [(each["version"], each["number"]) for each in told.values()] == [(number, number + 1) for number in range(5)]
    assert all(each["is_new"] and not each["is_from_scratch"] for each in list(told.values())[1:])
    assert told["merge"]["removed_files"] > 0 < told["optimize"]["removed_files"]
    rows, version = rows_of_iceberg(table)
    assert (rows, version) == (rows_of_delta(table), 4)
    assert [row["id"] for row in rows] == list(range(9))


@pytest.mark.slow
def test_a_driver_without_pyiceberg_commits_and_the_next_task_makes_up_for_its_metadata(tmp_path, run_task, monkeypatch):
    table = str(tmp_path / "orders")
    run_task(lambda: create(table), dag_id="made")
    (tmp_path / "no").mkdir()
    (tmp_path / "no" / "sitecustomize.py").write_text("import sys\nsys.modules['pyiceberg'] = None\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "no"), os.environ.get("PYTHONPATH", "")]))
    write = {"task_id": "write", "table": table, "source": SqlSource(ROWS.format(3)), **SPARK}
    run = run_task(lambda: DeltaWriteOperator(**write), dag_id="driver_without")
    assert (run.state, run.version, run.errors) == ("success", 1, [])
    (warning,) = run.result["warnings"]
    assert "IcebergConversionError" in warning
    assert "install airflow-delta[iceberg]" in warning
    assert "iceberg" not in run.result["details"]
    assert rows_of_iceberg(table) == ([], 0)
    run = run_task(lambda: alter(table), dag_id="worker_with")
    assert (run.result["details"]["iceberg"]["version"], run.result["details"]["iceberg"]["added_files"] > 0) == (2, True)
    assert rows_of_iceberg(table) == (rows_of_delta(table), 2)


def test_storage_that_takes_no_metadata_fails_no_task_and_the_next_one_makes_up_for_it(tmp_path, run_task):
    table = tmp_path / "orders"
    run_task(lambda: create(table), dag_id="made_before")
    (table / "metadata").rename(table / "aside")
    (table / "metadata").write_text("in the way")
    run = run_task(lambda: alter(table), dag_id="in_the_way")
    assert (run.state, run.version, run.errors) == ("success", 1, [])
    (warning,) = run.result["warnings"]
    assert warning.startswith("work after version 1 failed: ")
    Path(table, "metadata").unlink()
    run = run_task(lambda: alter(table, "blue"), dag_id="out_of_the_way")
    assert run.result["warnings"] == []
    assert rows_of_iceberg(table) == ([], 2)


def test_by_name_the_catalog_has_the_delta_table_and_icebergs_readers_its_path(tmp_path, run_task, monkeypatch, moto_server):  # noqa: F811
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    client = boto3.client("glue", endpoint_url=moto_server, region_name="eu-west-1")
    client.create_database(DatabaseInput={"Name": "iceberg", "LocationUri": f"{tmp_path}/lake.db"})
    catalog = {"type": "glue", "region": "eu-west-1", "endpoint_url": moto_server}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": {"catalog": catalog}}))
    named = {"table": "iceberg.orders", "engine": "worker", "delta_conn_id": "lake"}
    arguments = {"columns": "id BIGINT", "properties": PROPERTIES, **named}
    run_task(lambda: DeltaCreateOperator(task_id="make", **arguments), dag_id="made_by_name")
    changes = [SetProperties({"color": "red"})]
    run = run_task(lambda: DeltaAlterOperator(task_id="alter", changes=changes, **named), dag_id="altered_by_name")
    assert (run.result["details"]["iceberg"]["version"], run.result["warnings"]) == (1, [])
    entry = client.get_table(DatabaseName="iceberg", Name="orders")["Table"]
    assert entry["Parameters"]["table_type"] == "DELTA"
    assert "metadata_location" not in entry["Parameters"]
    assert rows_of_iceberg(entry["StorageDescriptor"]["Location"].removeprefix("file:")) == ([], 1)
