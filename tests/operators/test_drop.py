"""Tables dropped by name: the catalog decides, the files of exactly this table are deleted, and a retry finishes the work."""

import json
import os
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.catalogs.catalog import publish
from airflow_delta.catalogs.entry import TableDescription
from airflow_delta.catalogs.errors import (
    CatalogAccessDeniedError,
    CatalogRequestError,
    CatalogUnavailableError,
    ManagedTableError,
    TableNameNotFoundError,
)
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, TableNotDeletedError
from airflow_delta.core.statements import DropStatement
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.hooks.dropped_names import DroppedName, DroppedNames
from airflow_delta.hooks.errors import DeltaConnectionError
from airflow_delta.hooks.state_file import StateFile
from airflow_delta.operators import DeltaDropOperator, DeltaMaintenanceOperator

ORDERS = TableName("orders", "sales")
KEY = ("main", "sales", "orders")


@pytest.fixture
def orders(unity, tmp_path):
    """A table of two rows, published as ``sales.orders``."""
    root = tmp_path / "sales" / "orders"
    write_deltalake(str(root), pa.table({"id": [1, 2]}))
    publish(unity.client, ORDERS, TableDescription.of(DeltaLog.for_table(str(root)).snapshot()))
    return root


def drop(kind=DeltaDropOperator, **arguments):
    return kind(**{"task_id": "drop", "table": "sales.orders", "delta_conn_id": "lake", **arguments})


def files(root):
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_name_is_dropped_and_its_table_stays(unity, orders, run_task):
    run = run_task(drop)
    assert (run.state, run.errors, run.result["operation"], run.result["committed"]) == ("success", [], "DROP TABLE", False)
    assert run.result["details"]["catalog"] == {"catalog": "unity", "name": "sales.orders", "dropped": True}
    assert (unity.tables, run.result["table"], run.result["metrics"]) == ({}, str(orders), {})
    assert DeltaTable(str(orders)).to_pyarrow_table().num_rows == 2


def test_with_files_nothing_of_the_table_is_left(unity, orders, tmp_path, run_task):
    write_deltalake(str(tmp_path / "sales" / "orders_of_today"), pa.table({"id": [7]}))
    there = len(files(orders))
    run = run_task(lambda: drop(delete_files=True))
    assert (run.state, run.errors, run.result["metrics"]["numDeletedFiles"]) == ("success", [], there)
    assert (unity.tables, files(orders)) == ({}, [])
    assert DeltaTable(str(tmp_path / "sales" / "orders_of_today")).to_pyarrow_table().num_rows == 1


def test_a_dry_run_says_what_would_go(unity, orders, run_task):
    run = run_task(lambda: drop(delete_files=True, dry_run=True))
    assert (run.state, run.result["dry_run"], run.result["metrics"]["numDeletedFiles"]) == ("success", True, len(files(orders)))
    assert run.result["details"]["catalog"]["dropped"] is False
    assert (list(unity.tables), DeltaTable(str(orders)).to_pyarrow_table().num_rows) == ([KEY], 2)


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
def test_flags_of_a_drop_that_render_to_false_are_false(unity, orders, run_task, native):
    params = {"no": False, "text": "False"}
    flags = {"delete_files": "{{ params.no }}", "dry_run": "{{ params.text }}", "if_exists": "{{ params.no }}"}
    run = run_task(lambda: drop(**flags), native=native, params=params)
    assert (run.state, run.errors, run.result["dry_run"]) == ("success", [], False)
    assert (unity.tables, DeltaTable(str(orders)).to_pyarrow_table().num_rows) == ({}, 2)


def test_what_the_catalog_refuses_deletes_no_file(unity, orders, run_task):
    unity.tokens["secret-token"] = ("GET",)
    (error,) = run_task(lambda: drop(delete_files=True)).errors
    assert isinstance(error, CatalogAccessDeniedError)
    assert (error.principal, error.privilege) == ("alice", "MANAGE")
    assert DeltaTable(str(orders)).to_pyarrow_table().num_rows == 2


def test_a_table_that_got_another_name_since_its_drop_was_refused_keeps_its_files(unity, orders, run_task):
    unity.tokens["secret-token"] = ("GET",)

    class RenamedMeanwhile(DeltaDropOperator):
        def execute(self, context):
            if context["ti"].try_number == 2:
                unity.tokens["secret-token"] = None
                unity.tables["main", "sales", "renamed"] = unity.tables.pop(KEY)
            return super().execute(context)

    refused, missing = run_task(lambda: drop(RenamedMeanwhile, delete_files=True, retry_policy=None), retries=1).errors
    assert [type(error) for error in (refused, missing)] == [CatalogAccessDeniedError, TableNameNotFoundError]
    assert DeltaTable(str(orders)).to_pyarrow_table().num_rows == 2


SESSION_CATALOG = """
print("Submitted application application_1_0001", flush=True)
from airflow_delta.catalogs.errors import CatalogAccessDeniedError, TableNameNotFoundError
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
if number == 1:
    found = OperationResult(table="/lake/orders", version=3, read_version=3, operation="DROP TABLE", committed=False,
                            details={"catalog": {"table_id": "a"}})
    document = ResultDocument(outcome=found)
else:
    refused = CatalogAccessDeniedError(catalog="spark", table="sales.orders", principal="alice", privilege="DROP", detail="no")
    missing = TableNameNotFoundError(catalog="spark", name="sales.orders", detail="no")
    document = ResultDocument.of_error(refused if number == 2 else missing)
write_result(spec["result_uri"], document)
os._exit(0)
"""
"""A catalog that knows the name and refuses to drop it, but does not have it afterwards."""


@pytest.mark.slow
def test_a_deferrable_drop_that_spark_s_catalog_refused_looks_for_the_name_again(
    monkeypatch, tmp_path, recording_submit, run_task
):
    extra = {"catalog": "spark", "scratch_uri": str(tmp_path / "scratch")}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "delta", "extra": extra}))
    yarn = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_YARN", json.dumps(yarn))
    submit = recording_submit(SESSION_CATALOG)
    arguments = {"conn_id": "spark_yarn", "spark_binary": str(submit.path), "deferrable": True, "delete_files": True}

    errors = run_task(lambda: drop(**arguments, execution_timeout=timedelta(minutes=5), retry_policy=None), retries=1).errors

    assert [type(error) for error in errors] == [CatalogAccessDeniedError, TableNameNotFoundError]
    statements = [call["spec"]["statement"] for call in submit.calls]
    assert [(statement["table"], statement["dry_run"]) for statement in statements] == [
        ("sales.orders", True),
        ("/lake/orders", False),
        ("sales.orders", True),
    ]


@pytest.mark.parametrize(
    ("error", "had_name", "is_forgotten"),
    [(CatalogRequestError, True, True), (CatalogRequestError, False, False), (CatalogUnavailableError, True, False)],
    ids=["refused", "refused where an earlier try may have dropped it", "not answered"],
)
def test_only_a_name_that_was_there_and_whose_drop_was_refused_is_forgotten(tmp_path, error, had_name, is_forgotten):
    store = StateFile(store=log_store_for(str(tmp_path)), owner=("dag",), is_in_table=False)
    names = DroppedNames(store=store, key="drop", is_retry=False)
    orders = DroppedName(location="/lake/orders", table_id="a", version=1)
    names.remember(orders)
    with pytest.raises(error), names.forgotten_if_refused(had_name=had_name):
        raise error(catalog="spark", name="sales.orders", detail="no")
    assert names.earlier() == (None if is_forgotten else orders)


@pytest.mark.parametrize(
    ("on_clear", "hour", "try_number", "is_found"),
    [("rerun", 3, 2, True), ("rerun", 4, 1, False), ("reuse", 4, 1, True)],
    ids=["retry", "run made again", "reuse"],
)
def test_before_airflow_3_3_a_run_that_was_deleted_and_made_again_drops_anew(tmp_path, on_clear, hour, try_number, is_found):
    hook = SimpleNamespace(workers_see_tables=True, table_root=str(tmp_path), scratch_uri=None, storage_options=lambda _: None)

    def names(hour, try_number):
        ti = {"dag_id": "daily", "run_id": "scheduled", "task_id": "drop", "map_index": -1, "max_tries": 1}
        began = datetime(2026, 11, 27, hour, tzinfo=UTC)
        context = {
            "ti": SimpleNamespace(**ti, try_number=try_number),
            "dag_run": SimpleNamespace(start_date=began),
        }
        return DroppedNames.of_task(context, hook, ORDERS, scratch_uri=None, on_clear=on_clear)

    orders = DroppedName(location="/lake/orders", table_id="a", version=1)
    names(3, 1).remember(orders)
    assert names(hour, try_number).earlier() == (orders if is_found else None)


@pytest.mark.slow
@pytest.mark.parametrize("if_exists", [True, False])
def test_a_retry_that_cannot_know_what_was_dropped_says_that_files_may_be_left(unity, orders, run_task, monkeypatch, if_exists):
    lake = json.loads(os.environ["AIRFLOW_CONN_LAKE"])
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({**lake, "host": ""}))

    class Forgetful(LostBehindTheName):
        def execute(self, context):
            return super().execute({key: value for key, value in context.items() if key != "task_state_store"})

    run = run_task(lambda: drop(Forgetful, delete_files=True, if_exists=if_exists), retries=1)
    (warning,) = run.result["warnings"]
    assert (run.state, run.result["details"]["catalog"]["dropped"]) == ("success", False)
    assert "whether they are left, is not known" in warning
    assert DeltaTable(str(orders)).to_pyarrow_table().num_rows == 2


def test_files_of_another_table_at_the_place_keep_the_name_and_the_files(unity, orders, run_task):
    unity.tables[KEY]["properties"]["airflow_delta.tableId"] = "another"
    (error,) = run_task(lambda: drop(delete_files=True)).errors
    assert isinstance(error, TableNotDeletedError)
    assert (list(unity.tables), DeltaTable(str(orders)).to_pyarrow_table().num_rows) == ([KEY], 2)


def test_an_entry_without_the_tables_id_deletes_no_file(unity, orders, run_task):
    del unity.tables[KEY]["properties"]["airflow_delta.tableId"]
    (error,) = run_task(lambda: drop(delete_files=True)).errors
    assert isinstance(error, TableNotDeletedError)
    assert "delete_files=False" in str(error)
    assert "DeltaMaintenanceOperator(table='sales.orders', mend_catalog=True)" in str(error)
    assert list(unity.tables) == [KEY]


def test_an_entry_that_maintenance_has_mended_is_dropped_with_its_files(unity, orders, run_task):
    del unity.tables[KEY]["properties"]["airflow_delta.tableId"]
    mend = {"task_id": "mend", "table": "sales.orders", "delta_conn_id": "lake", "mend_catalog": True}
    assert run_task(lambda: DeltaMaintenanceOperator(**mend), dag_id="mended").errors == []
    run = run_task(lambda: drop(delete_files=True), dag_id="dropped")
    assert (run.errors, unity.tables, files(orders)) == ([], {}, [])


def test_a_managed_table_is_refused_with_or_without_its_files(unity, orders, run_task):
    unity.tables[KEY]["table-type"] = "MANAGED"
    (error,) = run_task(drop).errors
    assert isinstance(error, ManagedTableError)
    assert "DROP TABLE sales.orders" in str(error)
    assert list(unity.tables) == [KEY]


def test_a_name_that_is_not_there_fails_unless_it_may_be_missing(unity, run_task):
    missing = run_task(drop, retries=1, dag_id="missing")
    assert {type(error) for error in missing.errors} == {TableNameNotFoundError}
    allowed = run_task(lambda: drop(if_exists=True, delete_files=True), dag_id="allowed")
    assert (allowed.state, allowed.result["details"]["catalog"]["dropped"]) == ("success", False)


class LostBehindTheName(DeltaDropOperator):
    """The first try ends after the name is dropped, before any file is deleted."""

    def _delete_files(self, found, context):
        if context["ti"].try_number == 1 and not self.hook.catalog.find(ORDERS):
            raise RuntimeError("the worker is lost")
        return super()._delete_files(found, context)


def test_a_try_that_is_lost_between_name_and_files_is_ended_by_the_next(unity, orders, run_task):
    run = run_task(lambda: drop(LostBehindTheName, delete_files=True), retries=1)
    assert (run.state, [type(error).__name__ for error in run.errors]) == ("success", ["RuntimeError"])
    assert (run.result["details"]["catalog"]["dropped"], run.result["table"]) == (True, str(orders))
    assert (unity.tables, files(orders)) == ({}, [])


class LostBehindAll(DeltaDropOperator):
    """The first try ends after all work, before its result is known; then another table gets the name."""

    def _deliver(self, document, context):
        if context["ti"].try_number == 1:
            other = self.hook.table_uri("other")
            write_deltalake(other, pa.table({"id": [1]}))
            publish(self.hook.catalog, ORDERS, TableDescription.of(DeltaLog.for_table(other).snapshot()))
            raise RuntimeError("the worker is lost")
        return super()._deliver(document, context)


def test_a_retry_leaves_the_table_that_got_the_name_since(unity, orders, tmp_path, run_task):
    run = run_task(lambda: drop(LostBehindAll, delete_files=True), retries=1)
    assert (run.state, run.result["table"]) == ("success", str(orders))
    assert unity.client.find(ORDERS).location == str(tmp_path / "other")
    assert DeltaTable(str(tmp_path / "other")).to_pyarrow_table().num_rows == 1


class LostAsTheNameBecameManaged(DeltaDropOperator):
    """The first try ends after the name is dropped; before the next one a managed table gets it."""

    tables = None

    def _delete_files(self, found, context):
        if context["ti"].try_number == 1 and not self.hook.catalog.find(ORDERS):
            other = self.hook.table_uri("other")
            write_deltalake(other, pa.table({"id": [1]}))
            publish(self.hook.catalog, ORDERS, TableDescription.of(DeltaLog.for_table(other).snapshot()))
            self.tables[KEY]["table-type"] = "MANAGED"
            raise RuntimeError("the worker is lost")
        return super()._delete_files(found, context)


def test_a_retry_ends_its_work_although_another_kind_of_table_got_the_name(unity, orders, run_task, monkeypatch):
    monkeypatch.setattr(LostAsTheNameBecameManaged, "tables", unity.tables)
    run = run_task(lambda: drop(LostAsTheNameBecameManaged, delete_files=True), retries=1)
    assert (run.state, run.result["table"], files(orders), list(unity.tables)) == ("success", str(orders), [], [KEY])


@pytest.mark.parametrize("table", ["/lake/orders", "s3://lake/orders", "orders"])
def test_a_path_is_refused_where_the_dag_is_written(table):
    with pytest.raises(InvalidStatementError, match="a name of the catalog"):
        drop(table=table)


def test_a_connection_without_a_catalog_has_no_names_to_drop(run_task):
    (error,) = run_task(lambda: drop(delta_conn_id="delta_default")).errors
    assert isinstance(error, DeltaConnectionError)
    assert "expected a catalog that has the name 'sales.orders', found none" in str(error)


def test_arguments_become_a_statement():
    statement = DropStatement(table="sales.orders", delete_files=True, dry_run=True)
    assert drop(delete_files="true", dry_run=True).statement() == statement


@pytest.mark.slow
@pytest.mark.parametrize("scratch", [True, False])
def test_the_files_are_deleted_by_a_job_where_spark_is_the_engine(unity, orders, tmp_path, run_task, scratch):
    place = {"scratch_uri": str(tmp_path / "scratch")} if scratch else {}
    run = run_task(lambda: drop(delete_files=True, engine="spark", conn_id="spark_local", **place))
    assert (run.state, run.errors, unity.tables, files(orders)) == ("success", [], {}, [])
    assert run.result["metrics"]["numDeletedFiles"] > 0


def test_another_engine_is_refused_where_the_dag_is_written():
    with pytest.raises(InvalidStatementError, match="engine"):
        drop(engine="livy")


def test_a_name_that_only_jobs_know_is_refused_with_the_way_out(monkeypatch, run_task):
    lake = {"conn_type": "delta", "extra": {"catalog": "spark", "scratch_uri": "/scratch"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
    (error,) = run_task(lambda: drop(engine="worker")).errors
    assert isinstance(error, DeltaConnectionError)
    assert "only jobs know sales.orders" in str(error)
    assert "such as hive" in str(error)
