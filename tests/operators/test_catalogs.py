"""Tables by name in DAG runs: published after the commit; the next task publishes what could not be published."""

import json
import shutil

import pytest

from airflow_delta.catalogs.catalog import resolve
from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.errors import CatalogAccessDeniedError, TableNameNotFoundError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.schema import PrimitiveType
from airflow_delta.core.table_changes import NewColumn
from airflow_delta.hooks.errors import DeltaConnectionError
from airflow_delta.operators import (
    AddColumns,
    DeltaAlterOperator,
    DeltaCloneOperator,
    DeltaCreateOperator,
    DeltaMaintenanceOperator,
    DeltaSqlOperator,
    DeltaTableHealthOperator,
    SetProperties,
    TableSource,
)
from airflow_delta.sensors import DeltaCommitSensor

COLUMNS = {"id": "BIGINT NOT NULL COMMENT 'of the order'", "day": "DATE"}
ORDERS = TableName("orders", "sales")


def create(**arguments):
    given = {"table": "sales.orders", "columns": COLUMNS, "partition_by": ["day"], "comment": "all of them"} | arguments
    return DeltaCreateOperator(task_id="create", delta_conn_id="lake", engine="worker", **given)


def alter(*changes):
    return DeltaAlterOperator(task_id="alter", table="sales.orders", delta_conn_id="lake", engine="worker", changes=changes)


def findings(run_task, *, dag_id=None, **arguments):
    """The health check's findings about differences between table and catalog."""
    given = {"table": "sales.orders", "delta_conn_id": "lake"} | arguments
    run = run_task(lambda: DeltaTableHealthOperator(task_id="check", **given), dag_id=dag_id)
    return [finding for finding in run.result["details"]["findings"] if finding["code"] == "CATALOG_DRIFT"]


def drift(unity, table, name=ORDERS):
    return differences(unity.client.find(name), TableDescription.of(DeltaLog.for_table(str(table)).snapshot()))


def test_a_table_is_made_changed_and_cloned_by_name_and_found_in_the_catalog(unity, tmp_path, run_task):
    root = tmp_path / "sales" / "orders"
    made = run_task(create, dag_id="made")
    assert (made.state, made.errors, made.result["table"]) == ("success", [], str(root))
    assert made.result["details"]["catalog"] == {"catalog": "unity", "name": "sales.orders", "published": ["missing"]}
    entry = resolve(unity.client, ORDERS)
    assert (entry.location, entry.comment, entry.partition_columns) == (str(root), "all of them", ("day",))
    assert [column.name for column in entry.schema.fields] == ["id", "day"]
    changed = run_task(lambda: alter(AddColumns({"note": "STRING"}), SetProperties({"team": "sales"})), dag_id="changed")
    assert changed.result["details"]["catalog"]["published"] == ["schema", "properties"]
    assert drift(unity, root) == ()
    source = TableSource("sales.orders")
    cloned = run_task(
        lambda: DeltaCloneOperator(task_id="clone", table="sales.copy", source=source, delta_conn_id="lake", engine="worker"),
        dag_id="cloned",
    )
    assert (cloned.state, cloned.errors) == ("success", [])
    assert drift(unity, tmp_path / "sales" / "copy", TableName("copy", "sales")) == ()


def test_a_commit_that_cannot_be_published_stands_and_the_next_task_mends_it(unity, tmp_path, run_task):
    run_task(create, dag_id="made")
    unity.tokens["secret-token"] = ("GET",)
    denied = run_task(lambda: alter(AddColumns({"note": "STRING"})), dag_id="denied")
    assert (denied.state, denied.version, denied.errors) == ("success", 1, [])
    error = denied.result["details"]["catalog"]["error"]
    assert (error["code"], error["attributes"]["principal"], error["attributes"]["privilege"]) == (
        "DELTA_CATALOG_ACCESS_DENIED", "alice", "MODIFY",
    )  # fmt: skip
    assert [warning for warning in denied.result["warnings"] if "sales.orders" in warning]
    assert "secret-token" not in json.dumps(denied.result)
    assert drift(unity, tmp_path / "sales" / "orders") == ("schema",)
    unity.tokens["secret-token"] = None
    (finding,) = findings(run_task)
    assert (finding["severity"], finding["code"]) == ("warning", "CATALOG_DRIFT")
    assert finding["text"].endswith(": schema")
    mended = run_task(lambda: alter(SetProperties({"team": "sales"})), dag_id="mended")
    assert findings(run_task) == []
    assert (mended.version, mended.result["details"]["catalog"]["published"]) == (2, ["schema", "properties"])
    assert drift(unity, tmp_path / "sales" / "orders") == ()


def test_a_name_that_is_not_there_fails_the_task_before_it_does_anything(unity, tmp_path, run_task):
    run = run_task(lambda: alter(AddColumns({"note": "STRING"})))
    (error,) = run.errors
    assert isinstance(error, TableNameNotFoundError)
    assert not (tmp_path / "sales").exists()


@pytest.mark.parametrize("schema", ["main.nowhere", "elsewhere.sales"])
def test_a_new_table_in_a_schema_that_is_not_there_is_refused_before_it_is_made(unity, tmp_path, run_task, schema):
    run = run_task(lambda: create(table=f"{schema}.orders"))
    (error,) = run.errors
    assert isinstance(error, TableNameNotFoundError)
    assert (error.catalog, error.name, f"CREATE SCHEMA {schema} " in str(error)) == ("unity", f"{schema}.orders", True)
    assert list(tmp_path.rglob("_delta_log")) == []


def test_a_table_named_by_its_path_is_published_nowhere(unity, tmp_path, run_task):
    run = run_task(lambda: create(table=str(tmp_path / "by_path")))
    assert (run.state, "catalog" in run.result["details"], unity.tables) == ("success", False, {})


def test_new_tables_of_one_name_in_two_catalogs_are_two_tables(unity, tmp_path, run_task):
    unity.schemas.add(("dev", "sales"))
    made = [
        run_task(lambda table=table: create(table=table), dag_id=table) for table in ("main.sales.orders", "dev.sales.orders")
    ]
    assert [run.errors for run in made] == [[], []]
    assert [run.result["table"] for run in made] == [f"{tmp_path}/sales/orders", f"{tmp_path}/dev.sales/orders"]
    assert resolve(unity.client, ORDERS).location == f"{tmp_path}/sales/orders"


def test_a_dry_run_is_published_nowhere(unity, run_task):
    run = run_task(lambda: create(dry_run=True))
    assert (run.state, unity.tables) == ("success", {})


def test_a_table_that_was_dropped_and_made_anew_elsewhere_is_followed(unity, tmp_path, run_task):
    run_task(create, dag_id="made")
    unity.client.drop(ORDERS)
    again = DeltaLog.for_table(str(tmp_path / "sales" / "orders")).snapshot().metadata.id
    run_task(lambda: create(table=str(tmp_path / "elsewhere")), dag_id="elsewhere")
    anew = TableDescription.of(DeltaLog.for_table(str(tmp_path / "elsewhere")).snapshot())
    unity.client.create(ORDERS, anew)
    changed = run_task(lambda: alter(AddColumns({"note": "STRING"})), dag_id="changed")
    assert changed.result["table"] == str(tmp_path / "elsewhere")
    assert resolve(unity.client, ORDERS).table_id == anew.table_id != again


def maintain(table, **arguments):
    return DeltaMaintenanceOperator(task_id="maintain", table=str(table), delta_conn_id="lake", engine="worker", **arguments)


@pytest.mark.slow
def test_a_missing_name_is_a_finding_and_maintenance_makes_it(unity, tmp_path, run_task):
    root = tmp_path / "sales" / "orders"
    run_task(lambda: create(table=str(root)), dag_id="by_path")
    (finding,) = findings(run_task, table=str(root), catalog_name="sales.orders")
    assert (finding["text"].endswith(": missing"), "mend_catalog=True" in finding["remedy"]) == (True, True)
    left = run_task(lambda: maintain(root, catalog_name="sales.orders"), dag_id="left")
    assert (left.state, unity.tables) == ("success", {})
    dry = run_task(lambda: maintain(root, catalog_name="sales.orders", mend_catalog=True, dry_run=True), dag_id="dry")
    assert (dry.result["details"]["catalog"]["drift"], unity.tables) == (["missing"], {})
    mended = run_task(lambda: maintain(root, catalog_name="sales.orders", mend_catalog=True), dag_id="mended")
    assert (mended.state, mended.result["committed"]) == ("success", False)
    assert mended.result["details"]["catalog"]["published"] == ["missing"]
    assert findings(run_task, table=str(root), catalog_name="sales.orders", dag_id="found_again") == []
    assert drift(unity, root) == ()


def test_schema_properties_and_comment_that_drifted_are_mended_by_the_name(unity, tmp_path, run_task):
    run_task(create, dag_id="made")
    log = DeltaLog.for_table(str(tmp_path / "sales" / "orders"))
    log.alter().add_columns(NewColumn(path="note", type=PrimitiveType("string")))
    log.alter().set_properties({"team": "sales"})
    assert set(drift(unity, tmp_path / "sales" / "orders")) == {"schema", "properties"}
    mended = run_task(lambda: maintain("sales.orders", mend_catalog=True), dag_id="mended")
    assert mended.result["details"]["catalog"]["published"] == ["schema", "properties"]
    assert drift(unity, tmp_path / "sales" / "orders") == ()
    again = run_task(lambda: maintain("sales.orders", mend_catalog=True), dag_id="again")
    assert again.result["details"]["catalog"]["published"] == []


def test_a_name_of_another_place_becomes_this_tables_when_the_task_is_told_so(unity, tmp_path, run_task):
    run_task(create, dag_id="made")
    moved = tmp_path / "moved"
    shutil.copytree(tmp_path / "sales" / "orders", moved)
    (finding,) = findings(run_task, table=str(moved), catalog_name="sales.orders")
    assert finding["text"].endswith(": location")
    mended = run_task(lambda: maintain(moved, catalog_name="sales.orders", mend_catalog=True), dag_id="mended")
    assert mended.result["details"]["catalog"]["published"] == ["location"]
    assert resolve(unity.client, ORDERS).location == str(moved)
    assert drift(unity, moved) == ()


def test_a_catalog_that_cannot_be_mended_fails_the_task_behind_its_result(unity, tmp_path, run_task):
    run_task(create, dag_id="made")
    DeltaLog.for_table(str(tmp_path / "sales" / "orders")).alter().set_properties({"team": "sales"})
    unity.tokens["secret-token"] = ("GET",)
    denied = run_task(lambda: maintain("sales.orders", mend_catalog=True), dag_id="denied")
    (error,) = denied.errors
    assert isinstance(error, CatalogAccessDeniedError)
    assert denied.result["details"]["catalog"]["error"]["code"] == "DELTA_CATALOG_ACCESS_DENIED"


def test_to_mend_the_catalog_a_name_is_needed(unity, tmp_path, run_task):
    with pytest.raises(InvalidStatementError, match="give catalog_name beside the path"):
        maintain(tmp_path / "by_path", mend_catalog=True)
    run_task(lambda: create(table=str(tmp_path / "by_path")), dag_id="by_path")
    (error,) = run_task(lambda: maintain(tmp_path / "by_path", mend_catalog="{{ true }}"), dag_id="mended").errors
    assert isinstance(error, DeltaConnectionError)


def test_a_table_that_is_there_and_kept_gets_its_name(unity, tmp_path, run_task):
    run_task(create, dag_id="made")
    unity.client.drop(ORDERS)
    kept = run_task(lambda: create(mode="ignore"), dag_id="kept")
    assert (kept.state, kept.result["committed"], kept.result["details"]["catalog"]["published"]) == (
        "success",
        False,
        ["missing"],
    )
    assert drift(unity, tmp_path / "sales" / "orders") == ()


def test_a_sensor_waits_for_a_name_that_is_not_there_yet(unity, run_task):
    waiting = DeltaCommitSensor(task_id="wait", table="sales.orders", delta_conn_id="lake", min_version=0)
    assert not waiting.poke({}).is_done
    run_task(create, dag_id="made")
    assert waiting.poke({}).xcom_value == 0


def test_a_query_may_name_the_tables_of_the_catalog(unity, tmp_path, run_task, recording_submit):
    run_task(create, dag_id="made")
    submit = recording_submit()
    query = "SELECT day FROM sales.orders VERSION AS OF 0 JOIN temp.days USING (day), prod.sales.x"

    def write():
        return DeltaSqlOperator(
            task_id="sql",
            table=str(tmp_path / "days"),
            query=query,
            delta_conn_id="lake",
            conn_id="spark_local",
            spark_binary=str(submit.path),
        )

    assert run_task(write, dag_id="written").errors == []
    source = submit.calls[0]["spec"]["statement"]["source"]
    assert source["query"] == "SELECT day FROM delta_0 AS `orders` JOIN temp.days USING (day), prod.sales.x"
    view = source["views"]["delta_0"]
    assert (view["table"], view["version"]) == (str(tmp_path / "sales" / "orders"), 0)


def test_a_health_check_that_cannot_ask_the_catalog_says_so(unity, run_task, monkeypatch):
    run_task(create, dag_id="made")
    path = resolve(unity.client, ORDERS).location
    unity.tokens["secret-token"] = ()

    def check():
        return DeltaTableHealthOperator(task_id="check", table=path, catalog_name="sales.orders", delta_conn_id="lake")

    run = run_task(check, dag_id="checked")
    assert (run.state, run.result["details"]["findings"]) == ("success", [])
    (warning,) = run.result["warnings"]
    assert warning.startswith("comparing the catalog with the table failed: [DELTA_CATALOG_ACCESS_DENIED]")
