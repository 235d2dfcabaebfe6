"""Tasks on tables in object stores, reached by Airflow connections; and tables that only jobs see."""

import json

import pytest

from airflow_delta.core.actions import Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import ScratchUriNeededError, TablesNotVisibleError
from airflow_delta.operators import DeltaCheckpointOperator, DeltaMergeOperator, DeltaVacuumOperator
from airflow_delta.sensors import DeltaCommitSensor
from tests.core.object_stores import AZURITE_KEY, azure, azurite, gcs, gcs_server, moto_server, s3  # noqa: F401 - fixtures

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


def aws(store):
    return {"conn_type": "aws", "login": "test", "password": "test", "extra": {"endpoint_url": store.options["endpoint_url"]}}


def wasb(store):
    return {"conn_type": "wasb", "extra": {"connection_string": store.options["connection_string"]}}


def google(store):
    extra = {"is_anonymous": True, "gcs.endpoint": store.options["endpoint_url"]}
    return {"conn_type": "google_cloud_platform", "extra": extra}


@pytest.fixture
def lake(request, monkeypatch):
    """A table ``flights`` below the root of the connection ``lake``, in the store that the parameter names."""
    store = request.getfixturevalue(request.param)
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"s3": aws, "azure": wasb, "gcs": google}[request.param](store)))
    extra = {"storage_conn_id": "store"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "host": f"{store.uri}/lake", "extra": extra}))
    log = DeltaLog.for_table(f"{store.uri}/lake/flights", store.options)
    metadata = Metadata(id="m", schema_string=json.dumps(SCHEMA), partition_columns=(), configuration={})
    log.create_transaction(metadata).commit(operation=Operation(name="CREATE TABLE"))
    return log


in_every_store = pytest.mark.parametrize("lake", ["s3", "azure", "gcs"], indirect=True)


@in_every_store
def test_a_worker_keeps_a_table_by_its_name_alone(lake, run_task):
    checkpoint = run_task(
        lambda: DeltaCheckpointOperator(task_id="checkpoint", table="flights", delta_conn_id="lake", engine="worker"),
        dag_id="checkpoint_by_name",
    )
    assert (checkpoint.state, checkpoint.errors, checkpoint.version) == ("success", [], 0)
    assert lake.store.exists(f"_delta_log/{0:020d}.checkpoint.parquet")
    vacuum = run_task(
        lambda: DeltaVacuumOperator(task_id="vacuum", table="flights", delta_conn_id="lake", engine="worker"),
        dag_id="vacuum_by_name",
    )
    assert (vacuum.state, vacuum.errors, vacuum.result["table"]) == ("success", [], lake.table_uri)


@in_every_store
def test_a_sensor_finds_the_table_by_its_name(lake, run_task):
    run = run_task(lambda: DeltaCommitSensor(task_id="wait", table="flights", delta_conn_id="lake", min_version=0))
    assert (run.state, run.result) == ("success", 0)


@in_every_store
def test_the_connection_can_be_tested(lake):
    assert DeltaHook("lake").test_connection() == (
        True,
        f"the table root {lake.table_uri.removesuffix('/flights')} can be listed",
    )


@pytest.fixture
def unseen(monkeypatch, tmp_path):
    """A connection whose tables the workers do not see: the endpoint of its store does not exist."""
    store = {"conn_type": "aws", "login": "test", "password": "test", "extra": {"endpoint_url": "http://127.0.0.1:9"}}
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(store))

    def connect(**extra):
        extra = {"storage_conn_id": "store", "workers_see_tables": False, **extra}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "host": "s3://lake", "extra": extra}))

    connect(scratch_uri=str(tmp_path / "scratch"))
    return connect


def merge(submit):
    return DeltaMergeOperator(
        task_id="merge",
        table="flights",
        source="feed",
        on="target.id = source.id",
        delta_conn_id="lake",
        conn_id="spark_local",
        spark_binary=str(submit.path),
    )


def test_where_only_jobs_see_the_tables_the_job_does_the_looking(unseen, recording_submit, run_task, tmp_path):
    submit = recording_submit()
    run = run_task(lambda: merge(submit))
    assert (run.state, run.version, run.errors) == ("success", 1, [])
    (call,) = submit.calls
    assert call["spec"]["start_version"] is None
    assert call["spec"]["not_before"] > 1_300_000_000_000  # or the job would look for its commit in all that the log holds
    assert call["spec"]["statement"]["table"] == "s3://lake/flights"
    assert call["spec"]["statement"]["source"]["table"] == "s3://lake/feed"
    assert call["spec"]["result_uri"].startswith(f"{tmp_path}/scratch/")


def test_where_only_jobs_see_the_tables_a_lost_job_is_run_again_with_its_token(unseen, recording_submit, run_task):
    submit = recording_submit("if number == 1: sys.exit(137)")
    run = run_task(lambda: merge(submit), retries=1)
    assert (run.state, run.version) == ("success", 2)
    first, second = submit.calls
    assert first["spec"]["origin"]["token"] == second["spec"]["origin"]["token"]


def test_where_only_jobs_see_the_tables_their_results_need_a_place(unseen, recording_submit, run_task):
    unseen()
    submit = recording_submit()
    (error,) = run_task(lambda: merge(submit), retries=1).errors
    assert isinstance(error, ScratchUriNeededError)
    assert "workers have no access to the tables of the connection 'lake'" in str(error)
    assert submit.calls == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: DeltaCheckpointOperator(task_id="look", table="flights", delta_conn_id="lake", engine="worker"),
        lambda: DeltaCommitSensor(task_id="look", table="flights", delta_conn_id="lake", min_version=0),
        lambda: DeltaCommitSensor(task_id="look", table="flights", delta_conn_id="lake", min_version=0, deferrable=True),
    ],
    ids=["worker", "sensor", "deferrable sensor"],
)
def test_where_only_jobs_see_the_tables_a_look_from_the_worker_is_refused_at_once(unseen, make, run_task):
    run = run_task(make, retries=2)
    assert run.state == "failed"
    (error,) = run.errors
    assert isinstance(error, TablesNotVisibleError)
    assert (error.table, error.conn_id) == ("s3://lake/flights", "lake")
