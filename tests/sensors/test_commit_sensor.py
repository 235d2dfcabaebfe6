"""The sensor waits for exactly what its arguments define, in the worker and in the triggerer."""

import threading
import time
from types import SimpleNamespace

import pendulum
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from airflow_delta.catalogs.errors import TableNameNotFoundError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import StateFileError
from airflow_delta.sensors import DeltaCommitSensor
from tests.sensors.conftest import Instance, Store


def commit(table, version):
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("{}")


def context(**given):
    return {"task_state_store": Store(), "ti": Instance(), **given}


def sensor(table, **arguments):
    return DeltaCommitSensor(task_id="wait", table=str(table), **arguments)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"min_version": 1, "after_version": 1},
        {"min_version": 1, "since": "first_poke"},
        {"since": "yesterday"},
        {"min_version": "{{ unrendered }}"},
        {"after_version": "None"},
        {"after_version": [1]},
        {"after_version": True},
        {"after_version": 1, "after_timestamp": "2026-01-01"},
        {"during": ("2026-01-01", "2026-01-02"), "after_timestamp": "2026-01-01"},
        {"after_version": 1, "data_change_only": "maybe"},
        {"after_version": 1, "min_rows": "many"},
        {"after_version": 1, "after_verison": 2},
        {"after_timestamp": "yesterday"},
        {"after_timestamp": True},
        {"during": "2026-01-01"},
        {"during": ("2026-01-02", "2026-01-01")},
        {"during": ("2026-01-01", "2026-01-01")},
        {"during": ("2026-01-01",)},
        {"run_of": {}},
    ],
)
def test_what_to_wait_for_is_said_in_exactly_one_way(tmp_path, given):
    with pytest.raises(InvalidStatementError):
        sensor(tmp_path, **given).poke(context())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"min_version": -5}, "min_version must be at least -1, found -5"),
        ({"min_version": 0, "min_rows": 0}, "min_rows must be at least 1, found 0"),
        ({"after_version": 3, "min_rows": "-1"}, "min_rows must be at least 1, found -1"),
    ],
)
def test_numbers_that_no_table_is_below_are_refused_when_the_dag_is_parsed(tmp_path, given, text):
    with pytest.raises(InvalidStatementError, match=text):
        sensor(tmp_path, **given)


def test_a_number_of_rows_that_renders_to_none_of_them_is_refused_in_the_run(tmp_path):
    waiting = sensor(tmp_path, min_version=0, min_rows="{{ params.rows }}")
    waiting.min_rows = "0"  # as Airflow sets what has rendered
    with pytest.raises(InvalidStatementError, match="min_rows must be at least 1, found 0"):
        waiting.poke(context())


@pytest.mark.parametrize("rendered", [{}, None, "{'dag_id': 'daily', 'run_id': 'r'}", ["daily"]])
def test_a_run_whose_template_renders_to_no_run_is_refused_and_never_any_commit(tmp_path, rendered):
    waiting = sensor(tmp_path, run_of="{{ params.run }}")
    waiting.run_of = rendered  # as Airflow sets what has rendered
    with pytest.raises(InvalidStatementError, match="run_of"):
        waiting.poke(context())


@pytest.mark.parametrize(
    ("given", "done"),
    [
        ({"min_version": "2"}, True),
        ({"min_version": 3}, False),
        ({"after_version": 1}, True),
        ({"after_version": "2"}, False),
        ({"after_version": -1}, True),
        ({"since": "first_poke"}, False),
    ],
)
def test_a_poke_returns_whether_the_version_is_reached(tmp_path, given, done):
    for version in range(3):
        commit(tmp_path, version)
    value = sensor(tmp_path, **given).poke(context())
    assert (value.is_done, value.xcom_value) == (done, 2 if done else None)


def test_first_poke_waits_for_any_later_commit_and_a_reschedule_keeps_the_look(tmp_path):
    commit(tmp_path, 0)
    shared = context()
    assert not sensor(tmp_path, since="first_poke").poke(shared)
    commit(tmp_path, 1)
    assert sensor(tmp_path, since="first_poke").poke(shared).xcom_value == 1
    shared["ti"].max_tries += 1  # cleared
    assert not sensor(tmp_path, since="first_poke").poke(shared)


def test_first_poke_on_a_missing_table_waits_for_its_first_commit(tmp_path):
    shared = context()
    assert not sensor(tmp_path / "t", since="first_poke").poke(shared)
    assert list(tmp_path.iterdir()) == []
    commit(tmp_path / "t", 0)
    assert sensor(tmp_path / "t", since="first_poke").poke(shared).xcom_value == 0


@pytest.mark.parametrize("is_rescheduled", [True, False])
def test_first_poke_on_a_missing_name_waits_for_the_first_commit_of_its_table(tmp_path, monkeypatch, is_rescheduled):
    shared, table, names = context(), tmp_path / "t", []

    def log_store(hook, name):
        if name not in names:
            raise TableNameNotFoundError(catalog="lake", name=name, detail="the name is not there")
        return LocalLogStore(str(table))

    monkeypatch.setattr(DeltaHook, "log_store", log_store)
    waiting = sensor("sales.orders", since="first_poke")
    for _ in range(2):
        assert not waiting.poke(shared)
    commit(table, 0)
    names.append("sales.orders")
    if is_rescheduled:
        waiting = sensor("sales.orders", since="first_poke")
    assert waiting.poke(shared).xcom_value == 0


@pytest.mark.parametrize("has_scratch", [True, False])
def test_first_poke_on_a_missing_name_is_remembered_in_a_scratch_location_or_is_an_error(tmp_path, monkeypatch, has_scratch):
    """Before Airflow 3.3, in the process of each poke."""
    table, names = tmp_path / "t", []

    def found(name):
        if name not in names:
            raise TableNameNotFoundError(catalog="lake", name=name, detail="the name is not there")
        return str(table)

    monkeypatch.setattr(DeltaHook, "table_uri", lambda hook, name: found(name))
    monkeypatch.setattr(DeltaHook, "log_store", lambda hook, name: LocalLogStore(found(name)))
    monkeypatch.setattr(DeltaHook, "table_name", lambda hook, name: TableName.parse(name))
    monkeypatch.setattr(DeltaHook, "scratch_uri", str(tmp_path / "scratch") if has_scratch else None)
    task = SimpleNamespace(dag_id="d", run_id="r", task_id="wait", map_index=-1, max_tries=0, try_number=1)

    def poke():
        return sensor("sales.orders", since="first_poke").poke({"ti": task})

    if not has_scratch:
        with pytest.raises(StateFileError) as caught:
            poke()
        assert caught.value.place == "sales.orders"
        return
    assert not poke().is_done
    for version in range(3):
        commit(table, version)
    names.append("sales.orders")
    assert poke().xcom_value == 2


def test_a_deferrable_sensor_returns_at_once_or_leaves_the_wait_to_the_triggerer(tmp_path):
    commit(tmp_path, 0)
    assert sensor(tmp_path, min_version=0, deferrable=True).execute(context()) == 0
    with pytest.raises(TaskDeferred) as deferred:
        sensor(tmp_path, after_version=0, deferrable=True, poke_interval=5).execute(context())
    arguments = deferred.value.trigger.serialize()[1]
    assert (arguments["table"], arguments["wait"]["after"], arguments["poll_interval"]) == (str(tmp_path), 0, 5)
    assert sensor(tmp_path, after_version=0).execute_complete({}, {"version": 1}) == 1


@pytest.mark.parametrize("deferrable", [False, True], ids=["poke", "deferrable"])
def test_a_dag_waits_for_a_commit_and_returns_its_version(tmp_path, run_dag, xcom, deferrable):
    commit(tmp_path, 0)
    with DAG(f"waits_{deferrable}", schedule=None, start_date=pendulum.datetime(2013, 1, 1)) as dag:
        DeltaCommitSensor(
            task_id="wait",
            table="{{ dag_run.conf['table'] }}",
            after_version="{{ 0 }}",
            deferrable=deferrable,
            poke_interval=0.1,
            timeout=300,
        )

    def later():
        time.sleep(2)
        commit(tmp_path, 1)

    thread = threading.Thread(target=later)
    thread.start()
    run = run_dag(dag, run_conf={"table": str(tmp_path)})
    thread.join()
    assert run.state == "success"
    assert xcom(run, "wait") == 1
