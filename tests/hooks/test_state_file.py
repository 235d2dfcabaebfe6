"""What tasks remember where Airflow keeps no state: whole or not at all, for one owner, and never before there is a table."""

import os
import secrets
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

import airflow_delta.hooks.state_file as module
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import StateFileError
from airflow_delta.hooks.state_file import STATE_FOLDER, StateFile, delete_expired_states, state_file, task_state


@pytest.fixture
def table(tmp_path):
    root = tmp_path / "table"
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020d}.json").write_text("{}")
    return root


def state(root, *owner, **more):
    return StateFile(store=LocalLogStore(str(root)), owner=owner or ("daily", "run", "task", -1), is_in_table=True, **more)


def test_a_value_is_found_by_the_next_process_of_its_owner_and_by_no_other(table):
    state(table).set("key", {"version": 7})
    assert state(table).get("key") == {"version": 7}
    assert state(table).get("other", "default") == "default"
    assert state(table, "daily", "run", "task", 0).get("key") is None


def test_other_values_stay_when_one_is_set_or_deleted(table):
    state(table).set("a", 1)
    state(table).set("b", 2)
    state(table).set("a", 3)
    state(table).delete("b")
    assert (state(table).get("a"), state(table).get("b")) == (3, None)


def test_nothing_is_created_where_there_is_no_table(tmp_path):
    nowhere = tmp_path / "nowhere"
    assert state(nowhere).get("key") is None
    with pytest.raises(StateFileError, match="there is no table yet"):
        state(nowhere).set("key", 1)
    assert not nowhere.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"values": 7}', "[" * 100_000])
def test_a_damaged_file_is_an_error_and_not_an_empty_state(table, content):
    state(table).set("key", 1)
    (table / state(table).path).write_text(content)
    with pytest.raises(StateFileError, match="is damaged"):
        state(table).get("key")


def test_a_huge_file_is_not_read(table):
    state(table).set("key", 1)
    os.truncate(table / state(table).path, 2 << 20)
    with pytest.raises(StateFileError, match="has 2097152 bytes"):
        state(table).get("key")


def age(folder, days):
    """As if the files had not been changed for so long; their names, sorted."""
    then = time.time() - timedelta(days=days).total_seconds()
    files = sorted(folder.rglob("*.json"))
    for file in files:
        os.utime(file, (then, then))
    return files


@pytest.mark.parametrize(("days", "left"), [(29, ["always", "month", "year"]), (31, ["always", "year"]), (366, ["always"])])
def test_a_file_is_kept_for_as_long_as_its_folder_says_and_is_not_read_to_be_deleted(table, days, left):
    for kept in ("month", "year", "always"):
        state(table, kept=kept).set("key", 1)
        (table / state(table, kept=kept).path).write_text("{")
    age(table / STATE_FOLDER, days)
    delete_expired_states(LocalLogStore(str(table)))
    assert sorted(file.parent.name for file in (table / STATE_FOLDER).rglob("*.json")) == left


def test_a_scratch_location_does_not_fill_with_the_states_of_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda _: "")
    monkeypatch.setattr(module, "_MOST_LOOKED_AT", 2)
    hook, place = DeltaHook("delta_default"), str(tmp_path / "scratch")
    for number in range(5):
        state_file(hook, "/lake/flights", "run", number, scratch_uri=place, kept="month").set("key", number)
    files = age(tmp_path / "scratch", 31)
    new = state_file(hook, "/lake/flights", "run", 5, scratch_uri=place, kept="month")
    new.set("key", 1)
    new.set("key", 2)  # is not new any more, and looks at none
    looked_at = sorted({*files, tmp_path / "scratch" / new.path})[:2]
    assert [file for file in files if not file.exists()] == [file for file in looked_at if file in files] != []
    assert new.get("key") == 2


def test_what_cannot_be_deleted_stays_and_nothing_fails(table, monkeypatch):
    def refuse(*_):
        raise PermissionError

    state(table, "old").set("key", 1)
    age(table / STATE_FOLDER, 31)
    monkeypatch.setattr(LocalLogStore, "delete", refuse)
    state(table, "new").set("key", 1)
    assert (state(table, "old").get("key"), state(table, "new").get("key")) == (1, 1)


def test_a_scratch_location_goes_before_the_table_and_tells_tables_apart(table, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__DELTA__SCRATCH_URI", str(tmp_path / "scratch"))
    hook = DeltaHook("delta_default")
    state_file(hook, str(table), "owner").set("key", 1)
    assert state_file(hook, str(tmp_path / "none"), "owner").get("key") is None
    assert state_file(hook, str(table), "owner").get("key") == 1
    assert not (table / STATE_FOLDER).exists()
    state_file(hook, str(table), "owner", scratch_uri=str(tmp_path / "own")).set("key", 2)
    assert (tmp_path / "own" / STATE_FOLDER).is_dir()


def test_the_store_of_airflow_goes_before_a_file(table):
    store = {}
    assert task_state({"task_state_store": store}, DeltaHook("delta_default"), str(table)) is store
    ti = SimpleNamespace(dag_id="daily", run_id="run", task_id="task", map_index=-1)
    assert task_state({"ti": ti}, DeltaHook("delta_default"), str(table)).owner == ("daily", "run", "task", -1)


def test_a_run_that_was_deleted_and_made_again_finds_nothing_and_a_cleared_one_what_it_had(table):
    def of_run(day, clear_number=0):
        run = SimpleNamespace(start_date=datetime(2026, 1, day, tzinfo=UTC), clear_number=clear_number)
        ti = SimpleNamespace(dag_id="daily", run_id="run", task_id="task", map_index=-1)
        return task_state({"ti": ti, "dag_run": run}, DeltaHook("delta_default"), str(table))

    of_run(1).set("pin", 7)
    assert of_run(1).get("pin") == 7
    assert of_run(2, clear_number=1).get("pin") == 7
    assert of_run(3).get("pin") is None
    of_run(3).set("pin", 9)
    assert (of_run(3).get("pin"), of_run(4, clear_number=1).get("pin")) == (9, 9)
    of_run(4, clear_number=1).set("more", 1)
    assert of_run(5).get("pin") is None
