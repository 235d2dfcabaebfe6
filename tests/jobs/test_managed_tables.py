"""Catalog-managed tables in jobs on Spark, and by name in scripts: every statement reads and commits through the catalog."""

import json
import logging

import pytest

from airflow_delta.catalogs.managed_tables import ManagedTable
from airflow_delta.core.actions import Origin
from airflow_delta.core.errors import CatalogRequiredError, MaintenanceNotPermittedError, StorageAccessError
from airflow_delta.core.statements import (
    UPSERT,
    CheckpointStatement,
    CleanUpLogStatement,
    DeleteStatement,
    MergeStatement,
    OptimizeStatement,
    ReorgStatement,
    RestoreStatement,
    SqlSource,
    TableSource,
    UpdateStatement,
    VacuumStatement,
    WriteStatement,
)
from airflow_delta.core.storage.table_uri import local_path
from airflow_delta.jobs.errors import InvalidSpecError
from airflow_delta.jobs.run import run
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark import DeltaTable, delta_reader
from airflow_delta.spark.optimize.auto_compaction import compacted_after
from tests.catalogs.managed_unity import TOKEN, managed_unity
from tests.slow_cases import slow_after


@pytest.fixture
def unity(monkeypatch):
    """The server, which the environment names as in a driver."""
    monkeypatch.setattr("airflow_delta.catalogs.managed_tables._known", {})
    with managed_unity() as unity:
        for name, value in unity.environment().items():
            monkeypatch.setenv(name, value)
        yield unity


@pytest.fixture
def orders(unity, tmp_path, request):
    feature = getattr(request, "param", "catalogManaged")
    place = (tmp_path / "orders").as_uri()
    return unity.make("orders", place, feature=feature, **{"delta.enableChangeDataFeed": "true"})


@pytest.fixture
def execute(spark):
    """The outcome of the job of a statement about managed tables."""

    def execute(statement, *tables, token=None):
        named = [ManagedTable(name=table.name, location=table.location, table_id=table.table_id) for table in tables]
        spec = JobSpec(statement=statement, origin=Origin(token=token), start_version=0, managed_tables=tuple(named))
        document = run(spark, JobSpec.from_text(spec.to_text()))
        if document.outcome is None:
            raise document.typed_error()
        return document.outcome

    return execute


def rows_of(*rows):
    values = ", ".join(f"({identity}L, '{note}')" for identity, note in rows)
    return SqlSource(f"SELECT * FROM VALUES {values} AS t(id, note)")


def write(orders, *rows):
    return WriteStatement(table=orders.location, source=rows_of(*rows))


@pytest.mark.parametrize("orders", slow_after(1, ["catalogManaged", "catalogOwned-preview"]), indirect=True)
def test_statements_write_merge_update_and_delete_through_the_catalog(orders, execute):
    table = orders.location
    assert execute(write(orders, (1, "a"), (2, "b"), (3, "c")), orders).version == 1
    merged = execute(
        MergeStatement(table=table, source=rows_of((3, "C"), (4, "d")), on="target.id = source.id", clauses=UPSERT), orders
    )
    assert (merged.version, merged.metrics["numTargetRowsUpdated"]) == (2, 1)
    assert execute(UpdateStatement(table=table, assignments={"note": "'x'"}, where="id = 1"), orders).version == 3
    assert execute(DeleteStatement(table=table, where="id = 2"), orders).version == 4
    assert orders.ratified == [1, 2, 3, 4]
    assert [tuple(row.values()) for row in orders.rows()] == [(1, "x"), (3, "C"), (4, "d")]
    restored = execute(RestoreStatement(table=table, version=1), orders)
    assert (restored.version, len(orders.rows())) == (5, 3)


def test_one_job_reads_one_managed_table_at_an_older_version_and_writes_another(unity, orders, execute, tmp_path):
    execute(write(orders, (1, "a")), orders)
    execute(write(orders, (2, "b")), orders)
    copy = unity.make("copy", (tmp_path / "copy").as_uri())
    source = TableSource(orders.location, version=1)
    assert execute(WriteStatement(table=copy.location, source=source), copy, orders).version == 1
    assert copy.rows() == [{"id": 1, "note": "a"}]


def test_a_task_whose_commit_was_ratified_is_not_run_again(orders, execute):
    first = execute(write(orders, (1, "a")), orders, token="t0")
    again = execute(write(orders, (1, "a")), orders, token="t0")
    assert (first.version, again.version, again.already_committed, orders.ratified) == (1, 1, True, [1])


def test_a_commit_of_which_the_answer_was_lost_happens_once(unity, orders, execute):
    execute(write(orders, (1, "a")), orders)
    answer = unity.server.answer

    def lose(method, path, headers, body):
        if b"commit_info" in body:
            unity.server.answer = answer
            answer(method, path, headers, body)
            return 503, {}
        return answer(method, path, headers, body)

    unity.server.answer = lose
    assert execute(write(orders, (2, "b")), orders).version == 2
    assert (orders.ratified, len(orders.rows())) == ([1, 2], 2)


def test_a_job_that_is_not_told_that_a_table_is_managed_refuses_it(orders, execute):
    with pytest.raises(CatalogRequiredError):
        execute(write(orders, (1, "a")))
    with pytest.raises(CatalogRequiredError):
        execute(OptimizeStatement(table=orders.location))
    assert orders.ratified == []


def test_a_driver_with_another_token_is_refused_and_shows_none(unity, orders, execute, monkeypatch):
    for name, value in unity.environment().items():
        monkeypatch.setenv(name, value.replace(TOKEN, "another-secret"))
    with pytest.raises(StorageAccessError) as caught:
        execute(write(orders, (1, "a")), orders)
    assert "another-secret" not in str(caught.value) + json.dumps(caught.value.to_json())


def test_checkpoints_publish_first_and_what_the_catalog_permits_is_done(unity, orders, execute, monkeypatch):
    folder = local_path(orders.location) / "_delta_log"
    execute(write(orders, (1, "a")), orders)
    execute(write(orders, (2, "b")), orders)
    execute(CheckpointStatement(table=orders.location), orders)
    assert list(folder.glob(f"{2:020d}.checkpoint*"))
    assert (folder / f"{2:020d}.json").exists()
    for refused in (VacuumStatement, CleanUpLogStatement, OptimizeStatement):
        with pytest.raises(MaintenanceNotPermittedError):
            execute(refused(table=orders.location), orders)
    for name, value in unity.environment(permits=("vacuum", "log_cleanup", "data_layout")).items():
        monkeypatch.setenv(name, value)
    assert execute(OptimizeStatement(table=orders.location), orders).version == 3
    execute(VacuumStatement(table=orders.location, retention_hours=168), orders)
    execute(CleanUpLogStatement(table=orders.location), orders)
    assert (orders.ratified, len(orders.rows())) == ([1, 2, 3], 2)


def test_a_layout_that_is_the_catalog_s_to_change_is_refused_before_spark_rewrites_anything(
    unity, execute, spark, tmp_path, caplog
):
    properties = {"delta.enableDeletionVectors": "true", "delta.autoOptimize.autoCompact": "true"}
    orders = unity.make("orders", (tmp_path / "orders").as_uri(), **properties)
    execute(write(orders, *((number, "a") for number in range(20))), orders)
    written = execute(write(orders, (20, "b")), orders)
    with caplog.at_level(logging.INFO):
        assert compacted_after(spark, orders.log(), written, Origin(), min_files=2) == written
        execute(DeleteStatement(table=orders.location, where="id = 1"), orders)
        for refused in (OptimizeStatement, ReorgStatement):
            assert execute(refused(table=orders.location, dry_run=True), orders).metrics["numRemovedFiles"] > 0
            with pytest.raises(MaintenanceNotPermittedError):
                execute(refused(table=orders.location), orders)
    assert not [record.getMessage() for record in caplog.records if "Rewriting" in record.getMessage()]
    assert (orders.ratified, len(orders.rows())) == ([1, 2, 3], 20)


def test_a_script_names_the_table_and_reads_versions_and_changes_that_only_the_catalog_knows(spark, orders, execute):
    execute(write(orders, (1, "a")), orders)
    table = DeltaTable.forName(spark, "sales.orders")
    table.update(condition="id = 1", set={"note": "'b'"})
    assert [row.asDict() for row in table.toDF().collect()] == [{"id": 1, "note": "b"}]
    assert [row["version"] for row in table.history().collect()] == [2, 1, 0]
    assert table.detail().collect()[0]["location"].rstrip("/").endswith("/orders")
    old = delta_reader(spark).option("versionAsOf", 1).load(orders.location)
    assert [row["note"] for row in old.collect()] == ["a"]
    changes = delta_reader(spark).option("readChangeFeed", "true").option("startingVersion", 2).load(orders.location)
    assert sorted(row["_change_type"] for row in changes.collect()) == ["update_postimage", "update_preimage"]
    assert orders.ratified == [1, 2]


def test_a_spec_whose_managed_tables_say_nothing_is_refused(orders):
    text = JobSpec(statement=write(orders, (1, "a"))).to_text()
    document = json.loads(text)
    for wrong in ({}, [3], [{"name": "sales.orders"}]):
        with pytest.raises(InvalidSpecError, match="managed_tables"):
            JobSpec.from_text(json.dumps({**document, "managed_tables": wrong}))
