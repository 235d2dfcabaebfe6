"""Names of the job's own session: the worker passes them on, and Spark's Hive catalog on an embedded Derby finds them again."""

import json

import pytest
from deltalake import DeltaTable

from airflow_delta.catalogs.errors import InvalidCatalogError
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import DeltaConnectionError, ScratchUriNeededError
from airflow_delta.operators import (
    AddColumns,
    AlterStatement,
    DeltaAlterOperator,
    DeltaDropOperator,
    DeltaMaintenanceOperator,
    DeltaSqlOperator,
    DeltaStatementsOperator,
    DeltaTableHealthOperator,
    DeltaVacuumOperator,
    SqlSource,
    WriteStatement,
)
from airflow_delta.sensors import DeltaCommitSensor


@pytest.fixture
def lake(monkeypatch, tmp_path):
    extra = {"catalog": "spark", "scratch_uri": str(tmp_path / "scratch")}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": extra}))


@pytest.fixture
def session(tmp_path):
    """Arguments of a task whose Spark has a Hive catalog of its own."""
    database = f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
    return {
        "conn_id": "spark_local",
        "delta_conn_id": "lake",
        "conf": {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": database,
            "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
            "spark.hadoop.hive.metastore.schema.verification": "false",
        },
    }


@pytest.mark.slow
def test_jobs_find_each_others_tables_in_spark_s_hive_catalog(lake, session, tmp_path, run_task):
    statements = [
        WriteStatement(table="default.orders", source=SqlSource("SELECT id FROM range(2)")),
        AlterStatement(table="default.orders", changes=AddColumns("note STRING")),
    ]
    made = run_task(lambda: DeltaStatementsOperator(task_id="make", statements=statements, **session), dag_id="session_made")
    assert (made.state, made.errors, made.result["warnings"]) == ("success", [], [])
    entry = made.result["details"]["statements"]["1"]["details"]["catalog"]
    assert entry == {"catalog": "spark", "name": "default.orders", "published": ["missing"]}
    text = "INSERT INTO default.orders SELECT 7L, 'later'"
    added = run_task(lambda: DeltaSqlOperator(task_id="add", sql=text, **session), dag_id="session_added")
    assert (added.state, added.errors, added.version) == ("success", [], 2)
    assert added.result["details"]["catalog"] == {"catalog": "spark", "name": "default.orders", "published": []}
    assert added.result["table"].removeprefix("file:") == f"{tmp_path}/warehouse/orders"
    assert sorted(DeltaTable(f"{tmp_path}/warehouse/orders").to_pyarrow_table()["id"].to_pylist()) == [0, 1, 7]


def test_the_worker_passes_names_on_and_says_what_it_cannot_do_with_them(lake, monkeypatch, run_task):
    statement = DeltaAlterOperator(
        task_id="alter", table="sales.orders", delta_conn_id="lake", changes=AddColumns("a INT")
    ).statement()
    hook = DeltaHook("lake")
    assert hook.resolve_table_uris(statement) == statement
    assert (hook.is_session_name("sales.orders"), hook.is_session_name("/lake/orders")) == (True, False)
    with pytest.raises(InvalidCatalogError, match="only jobs and scripts know them"):
        hook.table_uri("sales.orders")
    named = {"table": "sales.orders", "delta_conn_id": "lake"}
    (error,) = run_task(lambda: DeltaCommitSensor(task_id="wait", min_version=1, **named), dag_id="session_sensor").errors
    assert isinstance(error, InvalidCatalogError)
    (error,) = run_task(lambda: DeltaDropOperator(task_id="drop", engine="worker", **named), dag_id="session_drop").errors
    assert isinstance(error, DeltaConnectionError)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": {"catalog": "spark"}}))
    alter = {"task_id": "alter", "changes": AddColumns("a INT"), "conn_id": "spark_local", **named}
    (error,) = run_task(lambda: DeltaAlterOperator(**alter), dag_id="session_alter").errors
    assert isinstance(error, ScratchUriNeededError)


@pytest.mark.parametrize("operator", [DeltaTableHealthOperator, DeltaVacuumOperator, DeltaMaintenanceOperator])
def test_what_the_worker_alone_is_to_do_with_a_name_is_refused_before_a_scratch_location_is_asked_for(
    monkeypatch, run_task, operator
):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": {"catalog": "spark"}}))
    given = {"task_id": "t", "table": "sales.orders", "engine": "worker", "delta_conn_id": "lake"}
    (error,) = run_task(lambda: operator(**given), dag_id=f"session_{operator.__name__}").errors
    assert isinstance(error, InvalidCatalogError)
