"""Tasks that change several tables, or name them in other arguments than ``table``: each table is published under its name."""

import json

import pyarrow as pa
import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow.sdk import task as task_decorator
from airflow.utils.session import create_session
from deltalake import write_deltalake
from sqlalchemy import select

from airflow_delta.assets import delta_asset
from airflow_delta.catalogs.catalog import publish
from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import Origin
from airflow_delta.core.operations.staged_folder import staged_id
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.statements.publish import PUBLISHED_KEY, STAGED_KEY, StagedHandle
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.jobs.catalog_publication import with_publication, with_publications_of_handles
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.operators import (
    AddColumns,
    AlterStatement,
    CheckpointStatement,
    CreateStatement,
    DeltaNewCommitsOperator,
    DeltaPublishOperator,
    DeltaSqlOperator,
    DeltaStatementsOperator,
)
from tests.slow_cases import slow_after

IN_PROCESS = """
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.jobs.core_statements import execute_in_core
from airflow_delta.jobs.result import ResultDocument, write_result
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.table_stats import attach_table_stats, describe_tables
given = JobSpec.from_text(json.dumps(spec))
log = DeltaLog.for_table(given.statement.table)
outcome = execute_in_core(log, given.statement, origin=given.origin, start_version=given.start_version)
document = attach_table_stats(ResultDocument(outcome=outcome), log)
write_result(given.result_uri, describe_tables(document, given.described_tables, DeltaLog.for_table))
sys.exit(0)
"""
"""A job that needs no Spark."""

ORDERS, CUSTOMERS, COPY = (TableName(table, "sales") for table in ("orders", "customers", "copy"))


@pytest.fixture
def submitted(recording_submit):
    """Arguments of an operator whose job runs without Spark."""
    submit = recording_submit(IN_PROCESS)
    return {"conn_id": "spark_local", "spark_binary": str(submit.path), "delta_conn_id": "lake"}


def snapshot(root):
    return DeltaLog.for_table(str(root)).snapshot()


def drift(unity, root, name):
    return differences(unity.client.find(name), TableDescription.of(snapshot(root)))


def test_each_table_of_several_statements_is_published_once_as_it_is_behind_the_last(unity, tmp_path, submitted, run_task):
    by_path = str(tmp_path / "by_path")
    statements = {
        "orders": CreateStatement(table="sales.orders", columns="id BIGINT"),
        "customers": CreateStatement(table="sales.customers", columns="name STRING"),
        "silent": CreateStatement(table=by_path, columns="id BIGINT"),
        "note": AlterStatement(table="sales.orders", changes=AddColumns("note STRING")),
        "checkpoint": CheckpointStatement(table="sales.customers"),
    }
    run = run_task(lambda: DeltaStatementsOperator(task_id="daily", statements=statements, **submitted))
    assert (run.state, run.errors, run.result["warnings"]) == ("success", [], [])
    results = run.result["details"]["statements"]
    entries = {name: result["details"].get("catalog") for name, result in results.items()}
    orders = {"catalog": "unity", "name": "sales.orders", "published": ["missing"]}
    customers = {"catalog": "unity", "name": "sales.customers", "published": ["missing"]}
    assert entries == {
        "orders": orders, "customers": customers, "silent": None, "note": orders, "checkpoint": customers,
    }  # fmt: skip
    assert drift(unity, tmp_path / "sales" / "orders", ORDERS) == ()
    assert drift(unity, tmp_path / "sales" / "customers", CUSTOMERS) == ()
    assert [column.name for column in unity.client.find(ORDERS).schema.fields] == ["id", "note"]
    assert sorted(table for _, _, table in unity.tables) == ["customers", "orders"]


def test_an_asset_of_a_name_is_announced_and_its_consumer_finds_the_table(unity, tmp_path, submitted, run_task):
    asset = delta_asset("named orders", "sales.orders", delta_conn_id="lake")
    statements = {
        "orders": CreateStatement(table="`sales`.orders", columns="id BIGINT"),
        "customers": CreateStatement(table="sales.customers", columns="name STRING"),
    }
    run = run_task(lambda: DeltaStatementsOperator(task_id="daily", statements=statements, asset=asset, **submitted))
    assert (run.state, run.errors) == ("success", [])
    with create_session() as session:
        query = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id).where(AssetModel.name == asset.name)
        (event,) = session.scalars(query).all()
    orders = tmp_path / "sales" / "orders"
    assert (event.extra["delta"]["table"], event.extra["delta"]["version"]) == (f"file://{orders}", 0)
    write_deltalake(orders, pa.table({"id": [1]}), mode="append")
    new = run_task(
        lambda: DeltaNewCommitsOperator(task_id="new", asset=asset, delta_conn_id="lake"), dag_id="consumer_of_a_name"
    )
    assert (new.state, new.result["table"], new.result["to_version"]) == ("success", f"file://{orders}", 1)


def test_a_table_of_several_statements_that_cannot_be_published_is_a_warning_of_the_task(unity, tmp_path, submitted, run_task):
    unity.tokens["secret-token"] = ("GET",)
    statements = [CreateStatement(table="sales.orders", columns="id BIGINT")]
    run = run_task(lambda: DeltaStatementsOperator(task_id="daily", statements=statements, **submitted))
    assert (run.state, snapshot(tmp_path / "sales" / "orders").version) == ("success", 0)
    assert run.result["details"]["statements"]["0"]["details"]["catalog"]["error"]["code"] == "DELTA_CATALOG_ACCESS_DENIED"
    (warning,) = run.result["warnings"]
    assert warning.startswith("publishing sales.orders in the catalog failed")


@pytest.mark.parametrize(
    ("texts", "name", "columns"),
    slow_after(
        2,
        [
            (["CREATE TABLE sales.orders (id BIGINT, day DATE) USING DELTA"], ORDERS, ["id", "day"]),
            (
                ["CREATE TABLE sales.orders (id BIGINT) USING DELTA", "ALTER TABLE sales.orders ADD COLUMN note STRING"],
                ORDERS,
                ["id", "note"],
            ),
            (
                [
                    "CREATE TABLE sales.orders (id BIGINT) USING DELTA",
                    "CREATE OR REPLACE TABLE sales.orders (day DATE) USING DELTA",
                ],
                ORDERS,
                ["day"],
            ),
            (
                ["CREATE TABLE sales.orders (id BIGINT) USING DELTA", "CREATE TABLE sales.copy SHALLOW CLONE sales.orders"],
                COPY,
                ["id"],
            ),
        ],
    ),
    ids=["created", "altered", "replaced", "cloned"],
)
def test_a_table_that_only_the_text_names_is_published(unity, tmp_path, submitted, run_task, texts, name, columns):
    for number, text in enumerate(texts):
        run = run_task(
            lambda text=text: DeltaSqlOperator(task_id="sql", sql=text, **submitted),
            dag_id=f"sql_{name.table}_{number}_{len(columns)}_{columns[-1]}",
        )
        assert (run.state, run.errors) == ("success", [])
    assert run.result["details"]["catalog"]["name"] == str(name)
    entry = unity.client.find(name)
    assert ([column.name for column in entry.schema.fields], entry.location) == (columns, str(tmp_path / "sales" / name.table))
    assert drift(unity, tmp_path / "sales" / name.table, name) == ()


def stage(root, token):
    """Stage a commit that adds a property; its handle."""
    if not root.exists():
        write_deltalake(str(root), pa.table({"id": [1]}))
    transaction = DeltaLog.for_table(str(root)).staging(staged_id(token)).start_transaction()
    files = transaction.snapshot.files()
    new = root / f"{token}.parquet"
    new.write_bytes((root / files["path"][0].as_py()).read_bytes())
    columns = {"path": pa.array([new.name])}
    adds = pa.table({name: columns.get(name, files[name].slice(0, 1)) for name in files.column_names}, files.schema)
    return transaction.commit(adds=adds, operation=Operation(name="WRITE"), origin=Origin(token=token)).staged


def test_what_was_staged_by_name_is_published_by_the_task_that_commits_it(unity, tmp_path, run_task):
    orders, customers, silent = (tmp_path / "sales" / "orders", tmp_path / "sales" / "customers", tmp_path / "by_path")
    handles = [
        {**stage(orders, "a"), "name": "sales.orders"},
        {**stage(customers, "b"), "name": "sales.customers"},
        stage(silent, "c"),
    ]
    publish(unity.client, ORDERS, TableDescription.of(snapshot(orders)))

    def make():
        @task_decorator
        def staged():
            return handles

        return DeltaPublishOperator(task_id="publish", handles=staged(), delta_conn_id="lake")

    run = run_task(make)
    assert (run.state, run.errors, run.result["warnings"]) == ("success", [], [])
    assert [entry.get("catalog") for entry in run.result["details"]["published"]] == [
        {"catalog": "unity", "name": "sales.orders", "published": []},
        {"catalog": "unity", "name": "sales.customers", "published": ["missing"]},
        None,
    ]
    assert [snapshot(root).version for root in (orders, customers, silent)] == [1, 1, 1]
    assert drift(unity, customers, CUSTOMERS) == ()


def test_the_handle_of_what_was_staged_keeps_the_name(unity, tmp_path):
    root = tmp_path / "sales" / "orders"
    handle = stage(root, "a")
    outcome = OperationResult(
        table=str(root), version=0, read_version=0, operation="WRITE", committed=False, details={STAGED_KEY: handle}
    )
    named = with_publication(DeltaHook("lake"), "sales.orders", ResultDocument(outcome=outcome)).outcome.details
    assert named[STAGED_KEY] == {**handle, "name": "sales.orders"}
    assert (named["catalog"], unity.tables) == ({"catalog": "unity", "name": "sales.orders"}, {})
    by_path = with_publication(DeltaHook("lake"), str(root), ResultDocument(outcome=outcome)).outcome.details
    assert json.dumps(by_path) == json.dumps({STAGED_KEY: handle})


def test_a_result_that_describes_another_table_is_published_nowhere(unity, tmp_path):
    """Or the name would become that table's."""
    write_deltalake(str(tmp_path / "other"), pa.table({"id": [1]}))
    description = TableDescription.of(snapshot(tmp_path / "other"))
    outcome = OperationResult(table=str(tmp_path / "orders"), version=1, read_version=0, operation="WRITE", committed=True)
    other = {str(tmp_path / "other"): {"description": description.to_json(), "schema_string": "{}"}}
    document = with_publication(DeltaHook("lake"), "sales.orders", ResultDocument(outcome=outcome, other_tables=other))
    assert (document.outcome.details["catalog"], unity.tables) == ({"catalog": "unity", "name": "sales.orders"}, {})


@pytest.mark.parametrize("published", [[], [{"table": "/orders"}], "nothing"], ids=["too few", "without a member", "a text"])
def test_a_result_that_another_version_has_written_is_a_warning_behind_the_commit(unity, published):
    outcome = OperationResult(
        table="/orders", version=1, read_version=0, operation="PUBLISH", committed=True, details={PUBLISHED_KEY: published}
    )
    handle = StagedHandle(table="/orders", id="a", name="sales.orders")
    document = with_publications_of_handles(DeltaHook("lake"), [handle], ResultDocument(outcome=outcome))
    [warning] = document.outcome.warnings
    assert warning.startswith("publishing in the catalog failed: ")
    assert (document.outcome.version, document.outcome.details, unity.tables) == (1, {PUBLISHED_KEY: published}, {})
