"""Catalog-managed tables by name in DAG runs: read, waited for, pinned, checked and committed to through their catalog."""

import asyncio
import json
import os
import pickle
from pathlib import Path

import pytest

from airflow_delta.catalogs.settings import CatalogSettings
from airflow_delta.core.errors import CatalogRequiredError, MaintenanceNotPermittedError
from airflow_delta.core.storage.table_uri import local_path
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.operators import (
    DeltaAlterOperator,
    DeltaCheckpointOperator,
    DeltaCleanUpLogOperator,
    DeltaMergeOperator,
    DeltaPinOperator,
    DeltaRestoreOperator,
    DeltaTableHealthOperator,
    DeltaVacuumOperator,
    SetProperties,
    TableSource,
)
from airflow_delta.sensors import DeltaCommitSensor
from airflow_delta.triggers.commit_event import DeltaCommitEventTrigger
from airflow_delta.watch.bounded_log import BoundedLog
from airflow_delta.watch.commit_watch import head_version
from tests.catalogs.managed_unity import TOKEN, managed_unity
from tests.core.managed.conftest import WRITE, adds


@pytest.fixture
def unity(tmp_path, monkeypatch):
    """The server behind the connection ``lake``."""
    with managed_unity() as unity:
        server = {"conn_type": "http", "host": unity.uri, "login": "alice", "password": TOKEN}
        catalog = {"type": "unity", "name": "main", "conn_id": "unity_server"}
        monkeypatch.setenv("AIRFLOW_CONN_UNITY_SERVER", json.dumps(server))

        def connect(**more):
            lake = {"conn_type": "delta", "host": str(tmp_path), "extra": {"catalog": {**catalog, **more}}}
            monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))

        connect()
        unity.connect = connect
        yield unity


@pytest.fixture
def orders(unity, tmp_path):
    return unity.make("orders", (tmp_path / "orders").as_uri())


def on_worker(operator, **arguments):
    given = {"task_id": "task", "table": "sales.orders", "delta_conn_id": "lake", "engine": "worker"} | arguments
    return lambda: operator(**given)


def append(orders, *paths):
    return orders.log().start_transaction().commit(adds=adds(*paths), operation=WRITE).version


def alter(value, **arguments):
    return on_worker(DeltaAlterOperator, changes=[SetProperties({"team": value})], **arguments)


def test_a_worker_commits_by_name_what_the_catalog_ratifies(orders, run_task):
    append(orders, "a")
    run = run_task(alter("sales"))
    assert (run.state, run.errors, run.version) == ("success", [], 2)
    assert orders.ratified == [1, 2]
    assert orders.kept.properties["team"] == "sales"
    assert run.result["details"]["catalog"] == {"catalog": "unity", "name": "sales.orders", "published": []}
    assert orders.log().snapshot().metadata.configuration["team"] == "sales"


def test_its_path_is_refused_with_the_way_out(orders, run_task):
    run = run_task(alter("sales", table=orders.location))
    (error,) = run.errors
    assert isinstance(error, CatalogRequiredError)
    assert "catalog.schema.table" in str(error)


def test_a_retry_finds_the_commit_that_was_ratified_though_its_answer_was_lost(unity, orders, run_task):
    append(orders, "a")
    commits_before = len(orders.ratified)
    send = unity.server.answer

    def lose_the_first_ratification(method, path, headers, body):
        answer = send(method, path, headers, body)
        if b"commit_info" in body:
            unity.server.answer = send
            return 503, {}
        return answer

    unity.server.answer = lose_the_first_ratification
    run = run_task(alter("sales"), retries=1)
    assert (run.state, run.version) == ("success", 2)
    assert len(orders.ratified) == commits_before + 1


def test_a_sensor_sees_what_is_ratified_and_not_published(unity, orders, run_task):
    version = append(orders, "a")
    (orders_log := orders.log()).snapshot()
    published = orders_log.store.commits
    assert published.ratified().latest == version
    run = run_task(
        lambda: DeltaCommitSensor(task_id="wait", table="sales.orders", delta_conn_id="lake", min_version=1, timeout=5)
    )
    assert (run.state, run.errors) == ("success", [])


def test_the_process_that_reads_large_logs_for_a_triggerer_asks_the_catalog_too(orders):
    version = append(orders, "a")
    store = DeltaHook("lake").log_store("sales.orders")
    assert BoundedLog(store).run_in_process(head_version) == version
    assert TOKEN.encode() in pickle.dumps(store.commits)  # which goes to our own process alone, by its standard input


def test_a_trigger_names_the_table_and_finds_its_commits(orders):
    append(orders, "a")
    trigger = DeltaCommitEventTrigger(table="sales.orders", delta_conn_id="lake", start="earliest", poll_interval=0.1)
    event = asyncio.run(anext(trigger.run()))
    assert event.payload["to_version"] == 1


def test_a_pin_holds_the_version_that_the_catalog_has_ratified(orders, run_task):
    append(orders, "a")
    run = run_task(lambda: DeltaPinOperator(task_id="pin", tables={"orders": "sales.orders"}, delta_conn_id="lake"))
    assert (run.state, run.errors, run.result["orders"]["version"]) == ("success", [], 1)


def test_the_health_check_finds_neither_drift_nor_damage(orders, run_task):
    orders.log().start_transaction().commit(operation=WRITE, allow_empty=True)
    run = run_task(
        lambda: DeltaTableHealthOperator(task_id="check", table="sales.orders", delta_conn_id="lake", engine="worker")
    )
    assert (run.state, run.errors, run.version) == ("success", [], 1)
    codes = {finding["code"] for finding in run.result["details"]["findings"] if finding["severity"] != "hint"}
    assert "CATALOG_DRIFT" not in codes


def test_a_checkpoint_by_name_publishes_what_is_ratified_first(orders, run_task):
    append(orders, "a")
    run = run_task(on_worker(DeltaCheckpointOperator))
    assert (run.state, run.errors) == ("success", [])
    names = sorted(path.name for path in log_folder(orders).glob("*.checkpoint*"))
    assert names[0].startswith(f"{1:020d}.checkpoint")
    assert (log_folder(orders) / f"{1:020d}.json").exists()


def test_maintenance_is_refused_unless_the_connection_says_that_the_catalog_permits_it(unity, orders, run_task):
    append(orders, "a")
    refused = run_task(on_worker(DeltaVacuumOperator), dag_id="refused")
    assert [type(error) for error in refused.errors] == [MaintenanceNotPermittedError]
    unity.connect(permits=["vacuum", "log_cleanup"])
    permitted = run_task(on_worker(DeltaVacuumOperator), dag_id="permitted")
    assert (permitted.state, permitted.errors) == ("success", [])
    cleaned = run_task(on_worker(DeltaCleanUpLogOperator), dag_id="cleaned")
    assert (cleaned.state, cleaned.errors) == ("success", [])


def test_a_table_is_restored_by_name_to_a_version_that_only_the_catalog_shows(orders, run_task):
    append(orders, "a")
    run_task(alter("sales"), dag_id="altered")
    run = run_task(on_worker(DeltaRestoreOperator, version=0), dag_id="restored")
    assert (run.state, run.errors, run.version) == ("success", [], 3)
    assert orders.log().snapshot().files().num_rows == 0


RECORD = """
variable = os.environ.get("AIRFLOW_DELTA_CATALOG")
Path(str(calls) + f".{number}").write_text(json.dumps(variable))
"""


def merge(submit, **arguments):
    source = TableSource("sales.orders", version=0)
    given = {"delta_conn_id": "lake", "conn_id": "spark_local", "spark_binary": str(submit.path)} | arguments
    return lambda: DeltaMergeOperator(task_id="merge", table="sales.orders", source=source, on="target.id = source.id", **given)


def test_a_driver_beside_the_worker_finds_the_catalog_in_its_environment_and_nowhere_else(
    unity, orders, recording_submit, run_task
):
    submit = recording_submit(RECORD)
    run = run_task(merge(submit))
    (call,) = submit.calls
    assert (run.state, run.errors) == ("success", [])
    assert call["spec"]["managed_tables"] == [
        {"name": "sales.orders", "location": orders.location, "table_id": orders.table_id}
    ]
    assert call["spec"]["statement"]["table"] == orders.location
    variable = json.loads(Path(f"{submit.calls_file}.1").read_text())
    assert CatalogSettings.parse(variable).credentials == {"token": TOKEN}
    assert TOKEN not in json.dumps(call) + json.dumps(run.result)
    assert "AIRFLOW_DELTA_CATALOG" not in os.environ


def test_a_table_whose_files_decide_costs_no_driver_the_token(unity, tmp_path, recording_submit, run_task, empty_table):
    submit = recording_submit(RECORD)
    source = TableSource(str(empty_table))
    run = run_task(
        lambda: DeltaMergeOperator(
            task_id="merge",
            table=str(empty_table),
            source=source,
            on="target.id = source.id",
            delta_conn_id="lake",
            conn_id="spark_local",
            spark_binary=str(submit.path),
        )
    )
    assert (run.state, run.errors) == ("success", [])
    assert json.loads(Path(f"{submit.calls_file}.1").read_text()) is None
    assert "managed_tables" not in submit.calls[0]["spec"]


def log_folder(orders):
    return local_path(orders.location) / "_delta_log"
