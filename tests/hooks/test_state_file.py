"""What tasks remember where Airflow keeps no state: whole or not at all, for one owner, and never before there is a table."""

import json
import os
from datetime import timedelta
from types import SimpleNamespace

import pytest

from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.hooks.airflow_features import NEVER_EXPIRE
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
    return StateFile(store=LocalLogStore(str(root)), owner=owner or ("daily", "run", "task", -1), is_beside_table=True, **more)


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


def test_what_has_expired_is_deleted_and_all_else_stays(table):
    state(table, "short").set("key", 1, retention=timedelta(seconds=1))
    state(table, "usual").set("key", 1)
    state(table, "never").set("key", 1, retention=NEVER_EXPIRE)
    state(table, "consumer", expires=False).set("key", 1, retention=timedelta(seconds=1))
    (table / STATE_FOLDER / "damaged.json").write_text("{")
    long_ago = 1_000_000_000
    for file in (table / STATE_FOLDER).iterdir():
        document = json.loads(file.read_text()) if file.stem != "damaged" else {"expires": None}
        if document["expires"] is not None:
            document["expires"] -= 3_600_000
            file.write_text(json.dumps(document))
        os.utime(file, (long_ago, long_ago))
    delete_expired_states(LocalLogStore(str(table)))
    left = {file.name for file in (table / STATE_FOLDER).iterdir()}
    kept = {state(table, owner).path.rpartition("/")[2] for owner in ("usual", "never", "consumer")}
    assert left == {*kept, "damaged.json"}


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
