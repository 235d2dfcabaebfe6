"""Pinned versions in DAG runs: how they are resolved and found again by retries and clears, and that vacuums spare them."""

import json
from datetime import timedelta

import pendulum
import pyarrow as pa
import pytest
from airflow.models.asset import AssetEvent
from airflow.sdk import DAG, Param, task, task_group
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.utils.session import create_session
from deltalake import CommitProperties, DeltaTable, write_deltalake
from sqlalchemy import select

from airflow_delta.assets import delta_asset
from airflow_delta.core.errors import (
    InvalidStatementError,
    PinNotRegisteredError,
    RunCommitNotFoundError,
    TableNotFoundError,
    TableReplacedError,
    VersionNotFoundError,
)
from airflow_delta.operators import DeltaPinOperator, DeltaVacuumOperator, ProducedBy, Timestamp, Version
from tests.airflow_versions import AIRFLOW

DAY = pendulum.datetime(2013, 1, 2)


def commit(table, number, mode="overwrite", **record):
    """Commit a version with one row; with a record, as if by a task run."""
    properties = CommitProperties(custom_metadata={"airflowDelta": record}) if record else None
    write_deltalake(str(table), pa.table({"n": [number]}), mode=mode, commit_properties=properties)


@pytest.fixture
def table(tmp_path):
    """Versions 0 to 3, each of one row with its number; the first two were made by the orders DAG for 1 and 2 January."""
    path = tmp_path / "orders"
    for number in range(4):
        record = {"dag_id": "orders", "task_id": "merge", "logical_date": f"2013-01-0{number + 1}T00:00:00+00:00"}
        commit(path, number, **(record if number < 2 else {}))
    return path


def pins(table):
    return [json.loads(path.read_text()) for path in sorted((table / "_airflow_delta" / "pins").glob("*.json"))]


def rows(table, version):
    return DeltaTable(table, version=version).to_pyarrow_table()["n"].to_pylist()


def pinned(run):
    return {alias: pin["version"] for alias, pin in run.result.items()} if run.result else run.errors[0]


def test_the_latest_version_is_pinned_and_returned_and_registered(table, run_task):
    run = run_task(lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}))
    assert pinned(run) == {"orders": 3}
    assert run.result["orders"]["table"] == str(table)
    (pin,) = pins(table)
    assert {name: pin[name] for name in ("alias", "version", "dag_id", "task_id", "map_index")} == {
        "alias": "orders",
        "version": 3,
        "dag_id": "test_the_latest_version_is_pinned_and_returned_and_registered",
        "task_id": "pin",
        "map_index": -1,
    }
    assert pin["expires"] - pin["created"] == timedelta(days=30) / timedelta(milliseconds=1)


def test_times_may_be_rendered_as_objects(table, run_dag, xcom):
    """With ``render_template_as_native_obj`` a template that is nothing but a date becomes one."""
    as_of = {
        "made": ProducedBy(dag_id="orders", task_id="merge", logical_date="{{ logical_date }}"),
        "now": Timestamp("{{ macros.datetime.now(macros.dateutil.tz.UTC) }}"),
    }
    with DAG("pin_natively", schedule=None, start_date=DAY, render_template_as_native_obj=True) as dag:
        DeltaPinOperator(task_id="pin", tables=dict.fromkeys(as_of, str(table)), as_of=as_of)
    run = run_dag(dag, logical_date=DAY)
    assert {alias: pinned["version"] for alias, pinned in xcom(run, "pin").items()} == {"made": 1, "now": 3}


def test_a_pin_announces_nothing_and_its_link_leads_to_a_history(table, run_dag, xcom):
    asset = delta_asset("pinned, not written", str(table))
    with DAG("pin_with_an_asset", schedule=None, start_date=DAY) as dag:
        DeltaPinOperator(task_id="pin", tables={"orders": str(table)}, asset=asset)
    run = run_dag(dag, logical_date=DAY)
    with create_session() as session:
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_dag_id == dag.dag_id)).all()
    assert (str(run.state.value), events) == ("success", [])
    assert xcom(run, "pin", "_link_DeltaTableHistoryLink")
    assert xcom(run, "pin", "delta_history")["table"] == str(table)


@pytest.mark.parametrize(
    ("as_of", "version"),
    [
        (lambda _: Version("{{ 1 + 1 }}"), 2),
        (lambda _: ProducedBy(dag_id="orders", task_id="merge", logical_date="{{ logical_date }}"), 1),
        (lambda times: Timestamp(times[2]), 2),
        (lambda times: Timestamp(str(times[1])), 1),
        (lambda _: Timestamp("{{ macros.datetime.now(macros.dateutil.tz.UTC) }}"), 3),
        (lambda _: {"orders": Version(0)}, 0),
        (lambda _: {}, 3),
    ],
    ids=["version", "run", "time", "templated time", "now", "by alias", "latest"],
)
def test_a_version_is_resolved_by_number_time_or_the_run_that_made_it(table, run_task, as_of, version):
    commits = {version: table / "_delta_log" / f"{version:020}.json" for version in range(4)}
    times = {version: commit.stat().st_mtime_ns // 1_000_000 for version, commit in commits.items()}
    tables = {"orders": "{{ dag_run.conf.root }}/orders"}
    run = run_task(
        lambda: DeltaPinOperator(task_id="pin", tables=tables, as_of=as_of(times)),
        dag_id="resolved",
        run_conf={"root": str(table.parent)},
    )
    assert pinned(run) == {"orders": version}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"as_of": Version(9)}, VersionNotFoundError),
        ({"as_of": Version("{{ 'nine' }}")}, InvalidStatementError),
        ({"as_of": ProducedBy(dag_id="orders", task_id="merge", logical_date="2013-01-09")}, RunCommitNotFoundError),
        ({"as_of": Timestamp("2999-01-01")}, InvalidStatementError),
    ],
    ids=["no such version", "no number", "no such run", "future"],
)
def test_what_cannot_be_pinned_fails_at_once_and_leaves_nothing(table, run_task, arguments, error):
    defaults = {"tables": {"orders": str(table)}}
    run = run_task(lambda: DeltaPinOperator(task_id="pin", **(defaults | arguments)), dag_id="not_pinned", retries=2)
    assert [type(raised) for raised in run.errors] == [error]
    assert pins(table) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"as_of": {"ordres": Version(1)}},
        {"tables": {"a/b": "orders"}},
        {"tables": {}},
        {"tables": {"delta_version": "orders"}},
    ],
    ids=["no such alias", "no alias", "no table", "another XCom"],
)
def test_what_cannot_be_meant_is_refused_when_the_dag_is_parsed(arguments):
    with pytest.raises(InvalidStatementError):
        DeltaPinOperator(**({"task_id": "pin", "tables": {"orders": "/orders"}} | arguments))


@pytest.mark.parametrize(("index", "version"), [("{{ ti.map_index }}", 4), ("0", 5)])
def test_the_version_of_a_mapped_task_is_found_by_a_rendered_index(table, run_task, index, version):
    for number, made_by in ((4, -1), (5, 0)):
        commit(table, number, dag_id="loads", task_id="load", run_id="r", map_index=made_by)
    as_of = ProducedBy(dag_id="loads", task_id="load", run_id="r", map_index=index)
    run = run_task(
        lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}, as_of=as_of), dag_id=f"mapped_{version}"
    )
    assert pinned(run) == {"orders": version}


def test_no_file_is_made_where_there_is_no_table(table, tmp_path, run_task):
    tables = {"orders": str(table), "nothing": str(tmp_path / "nothing")}
    run = run_task(lambda: DeltaPinOperator(task_id="pin", tables=tables))
    assert [type(error) for error in run.errors] == [TableNotFoundError]
    assert not (tmp_path / "nothing").exists()
    assert pins(table) == []


def test_versions_of_the_runs_conf_go_before_as_of(table, run_task):
    tables = {"by_alias": str(table), "by_table": f"{table}/", "other": f"{table}//"}
    run = run_task(
        lambda: DeltaPinOperator(task_id="pin", tables=tables, as_of=Version(0)),
        more=lambda _: DeltaPinOperator(task_id="another", tables={"of_another_task": str(table)}),
        run_conf={"delta_versions": {"by_alias": 1, f"{table}/": "2", "of_another_task": 0}},
    )
    assert pinned(run) == {"by_alias": 1, "by_table": 2, "other": 0}


@pytest.mark.parametrize("name", ["Orders", "order", "/lake/orders"])
def test_a_version_of_the_runs_conf_for_what_no_task_pins_is_refused(table, run_task, name):
    run = run_task(
        lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}, as_of=Version(0)),
        dag_id="no_such_alias",
        run_conf={"delta_versions": {name: 1}},
    )
    error = pinned(run)
    assert isinstance(error, InvalidStatementError)
    assert f"{name!r}, expected 'orders'" in error.detail


@pytest.mark.parametrize("conf", [[1], {"orders": "latest"}, {"orders": [1]}])
def test_versions_that_are_none_are_refused(table, run_task, conf):
    run = run_task(
        lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}),
        dag_id="no_versions",
        run_conf={"delta_versions": conf},
    )
    assert isinstance(pinned(run), InvalidStatementError)


class FailsOnce(DeltaPinOperator):
    """The first try is lost after pinning; by then there is another commit."""

    def _deliver(self, document, context):
        found = super()._deliver(document, context)
        if context["ti"].try_number == 1:
            commit(self.tables["orders"], 99)
            raise RuntimeError("the worker died")
        return found


def test_a_retry_finds_the_versions_of_the_first_try(table, run_task):
    run = run_task(lambda: FailsOnce(task_id="pin", tables={"orders": str(table)}), retries=1)
    assert (run.state, pinned(run)) == ("success", {"orders": 3})
    assert rows(table, None) == [99]
    assert [pin["version"] for pin in pins(table)] == [3]


@pytest.mark.parametrize(("refresh", "version"), [(False, 3), ("{{ params.refresh }}", 4)])
def test_a_cleared_task_finds_its_versions_again_unless_it_is_to_refresh(table, run_task, clear_once, refresh, version):
    def more(pin):
        @task
        def another_commit():
            if DeltaTable(table).version() == 3:
                commit(table, 99)

        another = another_commit()
        pin >> another
        clear_once(another, "pin")

    run = run_task(
        lambda: DeltaPinOperator(
            task_id="pin", tables={"orders": str(table)}, refresh=refresh, params={"refresh": Param(True, type="boolean")}
        ),
        dag_id=f"cleared_{version}",
        more=more,
    )
    assert (run.state, pinned(run)) == ("success", {"orders": version})
    assert [pin["version"] for pin in pins(table)] == [version]


def remake(table):
    for path in (table / "_delta_log").iterdir():
        path.unlink()
    for number in range(6):
        commit(table, number, mode="append")


def forget(table):
    """Delete versions as another engine's log cleanup does, which ignores pins."""
    DeltaTable(table).create_checkpoint()
    for version in range(4):
        (table / "_delta_log" / f"{version:020}.json").unlink()


@pytest.mark.slow
@pytest.mark.parametrize(("change", "error"), [(forget, VersionNotFoundError), (remake, TableReplacedError)])
def test_a_kept_version_that_is_gone_fails_the_task_without_another_try(table, run_task, clear_once, change, error):
    def more(pin):
        @task
        def lose_the_version():
            commit(table, 99)
            change(table)

        lost = lose_the_version()
        pin >> lost
        clear_once(lost, "pin")

    run = run_task(
        lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}), dag_id=change.__name__, more=more, retries=2
    )
    assert [type(raised) for raised in run.errors] == [error]


def test_a_later_task_gets_the_version_as_a_number_in_a_text(table, run_dag, xcom):
    with DAG("handed_on", schedule=None, start_date=DAY) as dag:
        pin = DeltaPinOperator(task_id="pin", tables={"orders": str(table)}, as_of=Version(1))
        pin >> DeltaPinOperator(task_id="again", tables={"orders": str(table)}, as_of=Version(pin.version("orders")))
    run = run_dag(dag, logical_date=DAY)
    assert xcom(run, "again", "orders") == 1
    with pytest.raises(InvalidStatementError, match="rates"):
        pin.version("rates")


def test_every_mapped_task_has_its_own_pin(table, run_dag):
    with DAG("mapped", schedule=None, start_date=DAY) as dag:
        DeltaPinOperator.partial(task_id="pin", tables={"orders": str(table)}).expand(as_of=[Version(1), Version(2)])
    assert run_dag(dag, logical_date=DAY).state == "success"
    assert sorted((pin["map_index"], pin["version"]) for pin in pins(table)) == [(0, 1), (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["version", "macro"])
def test_in_a_mapped_task_group_each_task_gets_the_version_that_was_pinned_for_its_index(table, tmp_path, run_dag, how):
    commit(tmp_path / "other", 0)

    @task_group
    def day(path):
        pin = DeltaPinOperator(task_id="pin", tables={"orders": path})
        version = {"version": pin.version("orders"), "macro": "{{ macros.delta.pinned_version(ti, 'orders', 'day.pin') }}"}[how]
        pin >> DeltaPinOperator(task_id="again", tables={"orders": path}, as_of=Version(version))

    with DAG(f"group_{how}", schedule=None, start_date=DAY) as dag:
        day.expand(path=[str(table), str(tmp_path / "other")])
    assert run_dag(dag, logical_date=DAY).state == "success"
    again = [(pin["map_index"], pin["version"]) for pin in pins(table) + pins(tmp_path / "other") if "again" in pin["task_id"]]
    assert again == [(0, 3), (1, 0)]


@pytest.mark.skipif(AIRFLOW < (3, 3), reason="before 3.3 the state of the task lies there too, and it fails")
def test_a_pin_that_cannot_be_written_is_a_warning_or_an_error(table, run_task):
    (table / "_airflow_delta").write_text("in the way")
    run = run_task(lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}), dag_id="may_not")
    assert pinned(run) == {"orders": 3}
    run = run_task(lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}, must_protect=True), dag_id="must")
    assert isinstance(pinned(run), PinNotRegisteredError)


def vacuum(table, **arguments):
    return DeltaVacuumOperator(
        task_id="vacuum", table=str(table), retention_hours=0, enforce_retention=False, engine="worker", **arguments
    )


def is_readable(table, version):
    """Whether the files of a version are there."""
    return all((table / path).exists() for path in DeltaTable(table, version=version).file_uris())


def test_a_vacuum_keeps_what_a_running_run_has_pinned_and_lets_go_of_it_afterwards(table, run_dag, xcom):
    def run_vacuum(*, dry_run):
        with DAG(f"vacuums_{dry_run}", schedule=None, start_date=DAY) as vacuums:
            vacuum(table, dry_run=dry_run)
        return xcom(run_dag(vacuums, logical_date=DAY), "vacuum")

    results = []
    with DAG("pins", schedule=None, start_date=DAY) as dag:

        @task
        def vacuum_meanwhile():
            results.extend(run_vacuum(dry_run=dry_run) for dry_run in (True, False))

        pin = DeltaPinOperator(task_id="pin", tables={"orders": str(table)}, as_of=Version(1))
        pin >> vacuum_meanwhile()
    run = run_dag(dag, logical_date=DAY)
    assert run.state == "success"
    assert [result["metrics"]["numFilesToDelete"] for result in results] == [2, 2]
    for result in results:
        (found,) = result["details"]["pins"]
        assert (found["version"], found["dag_id"], found["run_id"], found["task_id"]) == (1, "pins", run.run_id, "pin")
    assert [is_readable(table, version) for version in range(4)] == [False, True, False, True]

    assert run_vacuum(dry_run=False)["metrics"]["numDeletedFiles"] == 1
    assert pins(table) == []
    assert not is_readable(table, 1)


@pytest.mark.slow
def test_pins_of_runs_that_this_airflow_does_not_know_stay(table, run_task):
    run_task(lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}, as_of=Version(1)), dag_id="here")
    (path,) = (table / "_airflow_delta" / "pins").glob("*.json")
    ours = json.loads(path.read_text())
    elsewhere = ours | {"id": "elsewhere", "version": 0}
    deleted = ours | {"id": "deleted", "version": 2, "run_id": "gone"}
    for foreign in (elsewhere, deleted):
        path.with_name(f"{foreign['id']}-orders.json").write_text(json.dumps(foreign))
    run = run_task(lambda: vacuum(table, dry_run=False), dag_id="vacuums_alone")
    assert run.state == "success"
    assert sorted(pin["id"] for pin in pins(table)) == ["deleted", "elsewhere"]
    assert [is_readable(table, version) for version in range(4)] == [True, False, True, True]


@pytest.mark.parametrize("name", ["a\nb", "a?b#c", "../../variables"])
def test_a_pin_that_names_no_task_of_airflow_neither_fails_a_vacuum_nor_is_asked_for(table, run_task, monkeypatch, name):
    run_task(lambda: DeltaPinOperator(task_id="pin", tables={"orders": str(table)}, as_of=Version(1)), dag_id="here")
    (path,) = (table / "_airflow_delta" / "pins").glob("*.json")
    path.with_name("strange-orders.json").write_text(
        json.dumps(json.loads(path.read_text()) | {"id": "strange", "task_id": name})
    )
    asked = []
    is_ours = RuntimeTaskInstance.xcom_pull
    monkeypatch.setattr(RuntimeTaskInstance, "xcom_pull", lambda ti, *a, **k: asked.append(a[0]) or is_ours(ti, *a, **k))
    run = run_task(lambda: vacuum(table, dry_run=False), dag_id="vacuums_alone")
    assert (run.state, run.errors, asked) == ("success", [], ["pin"])
    assert [pin["id"] for pin in pins(table)] == ["strange"]


def test_tables_of_which_only_the_job_can_find_one_are_pinned_by_a_job(table, recording_submit, run_task, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SESSION", '{"conn_type": "delta", "extra": {"catalog": {"type": "spark"}}}')
    submit = recording_submit("""
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
tables = spec["statement"]["tables"]
pins = [dict(pin, version=3, table_id=None, timestamp=0, unprotected=None) for pin in tables]
first = dict(table=tables[0]["table"], version=3, read_version=3)
result = OperationResult(**first, operation="PIN", committed=False, details=dict(pins=pins))
write_result(spec["result_uri"], ResultDocument(outcome=result))
sys.exit(0)
""")
    submitted = {"delta_conn_id": "session", "conn_id": "spark_local", "spark_binary": str(submit.path)}
    both = {"orders": str(table), "rates": "sales.rates"}
    run = run_task(lambda: DeltaPinOperator(task_id="pin", tables=both, **submitted))
    assert (run.errors, pinned(run)) == ([], {"orders": 3, "rates": 3})


@pytest.mark.slow
def test_where_only_jobs_see_the_tables_a_job_pins_them(table, tmp_path, run_task, monkeypatch):
    extra = {"workers_see_tables": False, "scratch_uri": str(tmp_path / "scratch")}
    monkeypatch.setenv("AIRFLOW_CONN_JOBS_ONLY", json.dumps({"conn_type": "delta", "host": str(tmp_path), "extra": extra}))
    run = run_task(
        lambda: DeltaPinOperator(
            task_id="pin",
            tables={"orders": "orders", "first": "orders"},
            as_of={"first": ProducedBy(dag_id="orders", task_id="merge", logical_date="2013-01-01")},
            engine="spark",
            conn_id="spark_local",
            delta_conn_id="jobs_only",
        )
    )
    assert (run.errors, pinned(run)) == ([], {"orders": 3, "first": 0})
    assert [(pin["alias"], pin["version"], pin["task_id"]) for pin in pins(table)] == [
        ("first", 0, "pin"),
        ("orders", 3, "pin"),
    ]
