"""Tables made, altered, cloned, converted and restored by DAG runs in the worker; read by independent engines."""

import json
import shutil
from pathlib import Path

import pendulum
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from airflow_delta.core.errors import (
    ConstraintViolatedError,
    InvalidStatementError,
    InvalidTableChangeError,
    TableExistsError,
    TableNotFoundError,
)
from airflow_delta.operators import (
    AddColumns,
    AddConstraint,
    DeltaAlterOperator,
    DeltaCleanUpLogOperator,
    DeltaCloneOperator,
    DeltaCompactLogOperator,
    DeltaConvertOperator,
    DeltaCreateOperator,
    DeltaManifestOperator,
    DeltaRecomputeStatisticsOperator,
    DeltaRestoreOperator,
    DropColumns,
    DropFeature,
    RenameColumn,
    SetDefault,
    SetProperties,
    TableSource,
)

COLUMNS = {"id": "BIGINT NOT NULL", "day": "DATE COMMENT 'of departure'", "delay": "INT"}


def create(table, **arguments):
    return DeltaCreateOperator(task_id="create", table=str(table), engine="worker", **({"columns": COLUMNS} | arguments))


def commits(table):
    return sorted(path.name for path in (table / "_delta_log").glob("*.json"))


def infos(table):
    """The commit infos of a table, oldest first."""
    lines = [line for name in commits(table) for line in (table / "_delta_log" / name).read_text().splitlines()]
    return [action["commitInfo"] for action in map(json.loads, lines) if "commitInfo" in action]


def rows(table):
    found = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


@pytest.fixture
def flights(tmp_path):
    """Two versions that another engine wrote."""
    path = tmp_path / "flights"
    write_deltalake(str(path), pa.table({"id": [1, 2], "delay": [10, 20]}))
    write_deltalake(str(path), pa.table({"id": [3], "delay": [30]}), mode="append")
    return path


def test_a_table_is_made_as_its_columns_say_and_templates_are_rendered(tmp_path, run_task, duckdb_connection):
    run = run_task(
        lambda: create(
            "{{ dag_run.conf['root'] }}/{{ ds_nodash }}",
            columns=COLUMNS | {"made": "STRING COMMENT 'on {{ ds }}'"},
            partition_by=["day"],
            properties={"delta.appendOnly": "{{ 'true' }}", "owner": "{{ dag.dag_id }}"},
            constraints={"Sane": "delay > -1000"},
            comment="Flights since {{ ds }}",
        ),
        run_conf={"root": str(tmp_path)},
    )
    assert (run.state, run.version, run.errors) == ("success", 0, [])
    assert (run.result["operation"], run.result["committed"]) == ("CREATE TABLE", True)
    table = DeltaTable(str(tmp_path / "20130102"))
    metadata = table.metadata()
    assert (metadata.partition_columns, metadata.description) == (["day"], "Flights since 2013-01-02")
    assert metadata.configuration["delta.constraints.sane"] == "delay > -1000"
    assert metadata.configuration["delta.appendOnly"] == "true"
    fields = {field.name: field for field in table.schema().fields}
    assert list(fields) == ["id", "day", "delay", "made"]
    assert (fields["id"].nullable, fields["delay"].nullable) == (False, True)
    assert fields["made"].metadata == {"comment": "on 2013-01-02"}
    assert duckdb_connection.sql(f"SELECT * FROM delta_scan('{tmp_path / '20130102'}')").columns == list(fields)


def test_a_run_says_which_connection_its_table_lies_under(tmp_path, run_task, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_NIGHT", json.dumps({"conn_type": "delta", "host": str(tmp_path)}))
    run = run_task(lambda: create("flights", delta_conn_id="{{ dag_run.conf['lake'] }}"), run_conf={"lake": "night"})
    assert (run.state, run.errors, run.result["table"]) == ("success", [], str(tmp_path / "flights"))


def test_a_table_that_is_there_is_an_error_or_ignored_or_replaced(flights, run_task):
    run = run_task(lambda: create(flights), retries=1, dag_id="error")
    (error,) = run.errors
    assert isinstance(error, TableExistsError)
    run = run_task(lambda: create(flights, mode="ignore"), dag_id="ignore")
    assert (run.state, run.version, run.result["committed"]) == ("success", 1, False)
    run = run_task(lambda: create(flights, mode="{{ 'replace' }}"), dag_id="replace")
    assert (run.state, run.version, run.result["operation"]) == ("success", 2, "CREATE OR REPLACE TABLE")
    assert DeltaTable(str(flights)).to_pyarrow_table().column_names == ["id", "day", "delay"]
    assert rows(flights) == []


def test_several_changes_are_one_commit(flights, run_task):
    run = run_task(
        lambda: DeltaAlterOperator(
            task_id="alter",
            table=str(flights),
            changes=[
                AddConstraint("sane", "delay > {{ -5 }}"),
                AddColumns({"gate": "STRING COMMENT '{{ ds }}'", "stops": "ARRAY<STRING>"}, after="id"),
                SetProperties({"delta.feature.allowColumnDefaults": "supported"}),
                SetDefault("gate", "'none'"),
            ],
            engine="worker",
        )
    )
    assert (run.state, run.version, len(commits(flights))) == ("success", 2, 3)
    assert [info["operation"] for info in infos(flights)][-1] == "ALTER TABLE"
    altered = json.loads(infos(flights)[-1]["operationParameters"]["changes"])
    assert [change["operation"] for change in altered] == [
        "ADD CONSTRAINT",
        "ADD COLUMNS",
        "SET TBLPROPERTIES",
        "CHANGE COLUMN",
    ]
    table = DeltaTable(str(flights))
    assert [field.name for field in table.schema().fields] == ["id", "gate", "stops", "delay"]
    assert table.schema().fields[1].metadata == {"comment": "2013-01-02", "CURRENT_DEFAULT": "'none'"}
    assert table.metadata().configuration["delta.constraints.sane"] == "delay > -5"
    assert rows(flights) == [(1, None, None, 10), (2, None, None, 20), (3, None, None, 30)]


def test_one_change_is_named_as_delta_names_it_and_a_column_that_is_there_may_stay(flights, run_task):
    change = AddColumns("gate STRING", if_not_exists=True)

    def alter():
        return DeltaAlterOperator(task_id="alter", table=str(flights), changes=change, engine="worker")

    first, again = run_task(alter, dag_id="first"), run_task(alter, dag_id="again")
    assert (first.version, first.result["operation"], first.result["committed"]) == (2, "ADD COLUMNS", True)
    assert (again.state, again.version, again.result["committed"], len(commits(flights))) == ("success", 2, False, 3)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([AddColumns("gate STRING"), AddConstraint("sane", "delay < 15")], InvalidTableChangeError),
        ([AddConstraint("sane", "delay < 15"), AddColumns("gate STRING")], ConstraintViolatedError),
        ([AddColumns("gate STRING"), RenameColumn("id", "number")], InvalidTableChangeError),
        ([AddColumns("gate STRING NOT NULL")], InvalidStatementError),
        ([AddColumns("gate TEXT")], InvalidStatementError),
        ([DropColumns("nowhere")], InvalidTableChangeError),
    ],
)
def test_of_changes_that_cannot_all_be_none_is_made(flights, run_task, changes, error):
    run = run_task(lambda: DeltaAlterOperator(task_id="alter", table=str(flights), changes=changes, engine="worker"), retries=1)
    (found,) = run.errors
    assert isinstance(found, error)
    assert len(commits(flights)) == 2


def test_a_feature_is_dropped(flights, run_task):
    def alter(changes):
        return lambda: DeltaAlterOperator(task_id="alter", table=str(flights), changes=changes, engine="worker")

    assert run_task(alter(SetProperties({"delta.enableInCommitTimestamps": "true"})), dag_id="enable").state == "success"
    run = run_task(alter(DropFeature("inCommitTimestamp")), dag_id="drop")
    assert (run.state, run.result["operation"]) == ("success", "DROP FEATURE")
    assert "inCommitTimestamp" not in (DeltaTable(str(flights)).protocol().writer_features or [])


def test_an_older_version_comes_back(flights, run_task):
    def restore(**arguments):
        return DeltaRestoreOperator(task_id="restore", table=str(flights), version="{{ 2 - 2 }}", engine="worker", **arguments)

    tried = run_task(lambda: restore(dry_run=True), dag_id="tried_restore")
    assert (tried.version, tried.result["committed"], tried.result["details"]) == (1, False, {"restored_version": 0})
    assert tried.result["metrics"]["numRemovedFiles"] == 1
    assert len(rows(flights)) == 3
    run = run_task(restore)
    assert (run.state, run.version, run.result["operation"]) == ("success", 2, "RESTORE")
    assert run.result["metrics"]["numRemovedFiles"] == 1
    assert rows(flights) == [(1, 10), (2, 20)]


def test_a_table_is_cloned_at_a_version_which_the_history_names(flights, tmp_path, run_task):
    def clone(**arguments):
        return DeltaCloneOperator(
            task_id="clone",
            table=str(tmp_path / "clone"),
            source=str(flights),
            source_version="{{ 0 }}",
            engine="worker",
            **arguments,
        )

    tried = run_task(lambda: clone(dry_run=True), dag_id="tried_clone")
    assert (tried.version, tried.result["details"]["files"], (tmp_path / "clone").exists()) == (-1, 1, False)
    run = run_task(clone)
    assert (run.state, run.version, run.result["operation"]) == ("success", 0, "CLONE")
    assert run.result["details"]["source_version"] == 0
    assert run.result["sources"] == [{"table": str(flights), "version": 0}]
    assert not list((tmp_path / "clone").glob("*.parquet"))
    # Of deltalake, only the query engine knows absolute paths; duckdb does not.
    query = QueryBuilder().register("clone", DeltaTable(str(tmp_path / "clone"))).execute("SELECT id, delay FROM clone")
    assert pa.table(query.read_all()).to_pydict() == {"id": [1, 2], "delay": [10, 20]}


def test_a_table_is_copied_by_the_worker_and_outlives_its_source(flights, tmp_path, run_task):
    run = run_task(
        lambda: DeltaCloneOperator(
            task_id="clone", table=str(tmp_path / "copy"), source=str(flights), deep="{{ True }}", engine="worker"
        )
    )
    assert (run.state, run.version, run.result["metrics"]["numCopiedFiles"]) == ("success", 0, 2)
    assert run.result["sources"] == [{"table": str(flights), "version": 1}]
    shutil.rmtree(flights)
    found = DeltaTable(tmp_path / "copy").to_pyarrow_table().sort_by("id")
    assert found.to_pydict() == {"id": [1, 2, 3], "delay": [10, 20, 30]}


def test_a_clone_needs_a_source(tmp_path, run_task):
    run = run_task(
        lambda: DeltaCloneOperator(
            task_id="clone", table=str(tmp_path / "clone"), source=TableSource(str(tmp_path / "none")), engine="worker"
        )
    )
    assert isinstance(run.errors[0], TableNotFoundError)
    assert run.errors[0].table == str(tmp_path / "none")
    assert not (tmp_path / "clone").exists()


def test_parquet_files_become_a_table_and_stay_one(tmp_path, run_task):
    for day in ("2013-01-01", "2013-01-02"):
        (tmp_path / "landing" / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "landing" / f"day={day}" / "part.parquet")

    def convert(**arguments):
        return DeltaConvertOperator(
            task_id="convert", table=str(tmp_path / "landing"), partition_by={"day": "DATE"}, engine="worker", **arguments
        )

    tried = run_task(lambda: convert(dry_run=True), dag_id="tried_convert")
    assert (tried.version, tried.result["metrics"]) == (-1, {"numConvertedFiles": 2})
    assert not (tmp_path / "landing" / "_delta_log").exists()
    run, again = run_task(convert), run_task(convert, dag_id="again")
    assert (run.version, run.result["operation"], run.result["metrics"]) == (0, "CONVERT", {"numConvertedFiles": 2})
    assert (again.version, again.result["committed"]) == (0, False)
    table = DeltaTable(str(tmp_path / "landing"))
    assert (table.metadata().partition_columns, len(rows(tmp_path / "landing"))) == (["day"], 4)


def test_manifests_name_the_files(flights, run_task):
    run = run_task(lambda: DeltaManifestOperator(task_id="manifest", table=str(flights), engine="worker"))
    assert (run.state, run.version) == ("success", 1)
    assert run.result["metrics"] == {"numManifests": 1, "numDeletedManifests": 0, "numFiles": 2}
    named = (flights / "_symlink_format_manifest" / "manifest").read_text().splitlines()
    assert sorted(path.rsplit("/", 1)[-1] for path in named) == sorted(path.name for path in flights.glob("*.parquet"))


def test_statistics_are_computed_where_the_table_requires_others(flights, run_task):
    def compute(**arguments):
        return DeltaRecomputeStatisticsOperator(task_id="compute", table=str(flights), engine="worker", **arguments)

    properties = SetProperties({"delta.dataSkippingNumIndexedCols": "1"})
    run_task(
        lambda: DeltaAlterOperator(task_id="alter", table=str(flights), changes=properties, engine="worker"), dag_id="fewer"
    )
    tried = run_task(lambda: compute(dry_run=True), dag_id="tried_compute")
    assert (tried.version, tried.result["details"]) == (2, {"read": 2, "changed": 2, "skipped": 0})
    run, again = run_task(compute), run_task(compute, dag_id="computed_again")
    assert (run.version, run.result["operation"], run.result["committed"]) == (3, "COMPUTE STATS", True)
    assert (again.version, again.result["committed"]) == (3, False)
    actions = pa.table(DeltaTable(str(flights)).get_add_actions(flatten=True))
    assert "min.id" in actions.column_names
    assert "min.delay" not in actions.column_names


def test_the_log_is_compacted_and_a_cleanup_says_what_it_keeps(flights, run_task):
    compacted = run_task(lambda: DeltaCompactLogOperator(task_id="compact", table=str(flights), engine="worker"))
    path = f"_delta_log/{0:020d}.{1:020d}.compacted.json"
    assert compacted.result["details"] == {"path": path}
    assert (flights / path).exists()
    cleaned = run_task(
        lambda: DeltaCleanUpLogOperator(task_id="clean", table=str(flights), dry_run=True, engine="worker"), dag_id="clean"
    )
    assert cleaned.result["details"] == {"barrier": None, "paths": []}
    assert cleaned.result["metrics"] == {"numLogFiles": 0, "numSidecars": 0, "numTemporaryFiles": 0}


def test_dry_runs_report_what_the_table_would_be(flights, tmp_path, run_task):
    made = run_task(lambda: create(tmp_path / "new", partition_by="day", dry_run=True), dag_id="create")
    would = made.result["details"]
    assert (made.version, would["would"], would["table"]["partition_columns"]) == (-1, "CREATE TABLE", ["day"])
    assert [field["name"] for field in would["table"]["schema"]["fields"]] == ["id", "day", "delay"]
    assert not (tmp_path / "new").exists()
    replaced = run_task(lambda: create(flights, mode="replace", dry_run=True), dag_id="replace")
    assert replaced.result["metrics"] == {"numRemovedFiles": 2}
    kept = run_task(lambda: create(flights, mode="ignore", dry_run=True), dag_id="ignore")
    assert (kept.version, kept.result["details"]["would"]) == (1, None)
    changes = [AddColumns("at TIMESTAMP_NTZ")]
    altered = run_task(
        lambda: DeltaAlterOperator(task_id="alter", table=str(flights), changes=changes, dry_run=True, engine="worker"),
        dag_id="alter",
    )
    details = altered.result["details"]
    assert "timestampNtz" in details["table"]["protocol"]["writerFeatures"]
    assert [change["operation"] for change in details["changes"]] == ["ADD COLUMNS"]
    assert len(commits(flights)) == 2


def test_every_mapped_task_makes_its_table(tmp_path, run_dag, xcom):
    tables = [str(tmp_path / name) for name in ("a", "b")]
    with DAG("mapped", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        made = DeltaCreateOperator.partial(task_id="create", columns="id BIGINT", engine="worker").expand(table=tables)
        altered = DeltaAlterOperator.partial(task_id="alter", engine="worker").expand_kwargs(
            [{"table": table, "changes": [AddColumns({name: "INT"})]} for table, name in zip(tables, "xy", strict=True)]
        )
        made >> altered
    assert str(run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2)).state) == "success"
    assert [[field.name for field in DeltaTable(table).schema().fields] for table in tables] == [["id", "x"], ["id", "y"]]
    assert [len({info["airflowDelta"]["token"] for info in infos(Path(table))}) for table in tables] == [2, 2]
