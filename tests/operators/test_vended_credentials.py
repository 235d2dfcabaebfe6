"""DAG runs by keys that the catalog vends, and nobody sees: on the worker and in a real Spark job."""

import asyncio
import json
import os
import uuid
from pathlib import Path

import boto3
import pytest

from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, result_uri, write_result
from airflow_delta.operators import DeltaAlterOperator, DeltaSqlOperator, DeltaUpdateOperator, SetProperties
from airflow_delta.sensors import DeltaCommitSensor
from airflow_delta.triggers.result import DeltaResultTrigger
from tests.airflow_versions import AIRFLOW
from tests.catalogs.guarded_s3 import guarded_s3
from tests.catalogs.managed_unity import managed_unity
from tests.conftest import AIRFLOW_HOME


@pytest.fixture
def s3():
    with guarded_s3() as s3:
        yield s3


@pytest.fixture
def orders(s3, tmp_path, monkeypatch):
    """A managed table on S3; of the connection ``lake`` nobody has keys but who asks the catalog."""
    token = f"token-{uuid.uuid4().hex}"  # of which the database has no test's source
    with managed_unity(token) as unity:
        unity.names.vend = s3.vend
        server = {"conn_type": "http", "host": unity.uri, "login": "alice", "password": token}
        catalog = {"type": "unity", "name": "main", "conn_id": "unity_server", "vends_credentials": True}
        extra = {"catalog": catalog, "storage_options": {"endpoint_url": s3.endpoint}}
        monkeypatch.setenv("AIRFLOW_CONN_UNITY_SERVER", json.dumps(server))
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "host": "s3://lake", "extra": extra}))
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        owner = {"key": "test", "secret": "test", "endpoint_url": s3.endpoint}
        yield unity.make("orders", "s3://lake/orders", options=owner)


def contents_of_lake(s3):
    own = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=s3.endpoint, **own)
    keys = [found["Key"] for found in client.list_objects_v2(Bucket="lake")["Contents"]]
    return {f"s3://lake/{key}": client.get_object(Bucket="lake", Key=key)["Body"].read() for key in keys}


def places_that_show(secrets, contents):
    """Where a secret stands, with what is around it."""
    found = {(name, secret): content.find(secret.encode()) for name, content in contents.items() for secret in secrets}
    return sorted((name, secret, contents[name][max(0, at - 80) : at]) for (name, secret), at in found.items() if at >= 0)


def files_below(*folders):
    return {str(path): path.read_bytes() for folder in folders for path in Path(folder).rglob("*") if path.is_file()}


def output_of(capfd):
    """What was printed, without the lines in which Airflow 3.0 itself shows what it masks."""
    lines = "".join(capfd.readouterr()).splitlines()
    return "\n".join(line for line in lines if AIRFLOW > (3, 0) or "msg=MaskSecret(" not in line).encode()


def by_name(operator, **arguments):
    return lambda: operator(task_id="task", table="sales.orders", delta_conn_id="lake", **arguments)


def test_a_worker_and_a_sensor_reach_the_table_by_vended_keys_alone(s3, orders, run_task, capfd, caplog):
    run = run_task(by_name(DeltaAlterOperator, engine="worker", changes=[SetProperties({"team": "sales"})]), dag_id="altered")
    assert (run.state, run.errors, run.version) == ("success", [], 1)
    waited = run_task(by_name(DeltaCommitSensor, min_version=1, timeout=5), dag_id="waited")
    assert (waited.state, s3.refused) == ("success", 0)
    assert set(s3.used) == set(s3.keys)
    shown = {"output": output_of(capfd), "log": caplog.text.encode()}
    assert (
        places_that_show([*s3.secrets, orders.unity.server.token], shown | files_below(AIRFLOW_HOME) | contents_of_lake(s3))
        == []
    )


@pytest.mark.parametrize("is_known", [True, False], ids=["as managed", "as any other"])
def test_the_triggerer_finds_the_result_beside_a_table_by_vended_keys_and_does_not_wait_without_end_where_it_is_refused(
    s3, orders, resource_manager, airflow_database, monkeypatch, is_known
):
    monkeypatch.setattr("airflow_delta.triggers.result.UNANSWERED_LIMIT", 0.3)
    outcome = OperationResult(table=orders.location, version=1, read_version=0, operation="WRITE", committed=True)
    uri = result_uri(orders.location, "0" * 32, 1)
    write_result(uri, ResultDocument(outcome=outcome), orders.options)
    table = {"name": "sales.orders", "location": orders.location, "table_id": orders.table_id}
    resource_manager.state, resource_manager.final_status = "FINISHED", "SUCCEEDED"
    trigger = DeltaResultTrigger(
        delta_conn_id="lake",
        base=orders.location,
        token="0" * 32,
        start_version=0,
        before=[],
        managed_tables=[table] if is_known else [],
        spark_conn_id="spark_yarn",
        job_id="application_1_0001",
        until=None,
        poll_interval=0.05,
    )

    async def first():
        async for event in trigger.run():
            return event.payload["state"]
        return None

    assert asyncio.run(asyncio.wait_for(first(), 120)) == ("document" if is_known else "succeeded")


@pytest.mark.slow
def test_a_spark_job_writes_and_updates_by_vended_keys_that_stand_nowhere(s3, orders, run_task, capfd, caplog, tmp_path):
    """Searched: output, logs, the database with XComs and rendered arguments, Spark's event log with its settings, scratch."""
    events = tmp_path / "events"
    events.mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    on_spark = {"conn_id": "spark_local", "conf": conf}
    query = "SELECT id, concat('note ', id) AS note FROM range(100)"
    wrote = run_task(by_name(DeltaSqlOperator, query=query, **on_spark), dag_id="wrote")
    assert (wrote.state, wrote.errors, wrote.version) == ("success", [], 1)
    updated = run_task(
        by_name(DeltaUpdateOperator, assignments={"note": "'new'"}, where="id < 10", **on_spark), dag_id="updated"
    )
    assert (updated.state, updated.errors, updated.version) == ("success", [], 2)
    assert [row["note"] for row in orders.rows()].count("new") == 10
    assert (orders.ratified, s3.refused) == ([1, 2], 0)
    assert len(s3.keys) >= 5  # of the process that runs the tasks, of each driver, and of each worker of theirs
    found = files_below(AIRFLOW_HOME, tmp_path) | contents_of_lake(s3)
    found |= {"output": output_of(capfd), "log": caplog.text.encode()}
    assert any(
        "spark.eventLog.dir" in content.decode(errors="replace") for name, content in found.items() if str(events) in name
    )
    assert any(name.endswith("/1.json") for name in found)  # the document of a job's result
    assert places_that_show([*s3.secrets, orders.unity.server.token], found) == []
