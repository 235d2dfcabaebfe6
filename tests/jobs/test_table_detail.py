"""What a job reports of a table for its page, all of it from the log."""

import time
from itertools import pairwise

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core import DeltaLog
from airflow_delta.core.operations.pins import Pin, register
from airflow_delta.jobs import table_detail as module
from airflow_delta.jobs.best_effort import BestEffort
from airflow_delta.jobs.table_detail import SIZE_BOUNDS, files_of_one_value, size_histogram, table_detail

HOUR = 3_600_000


@pytest.fixture
def table(tmp_path):
    """Twelve small files of ten rows each, of which ``id`` increases from file to file and ``rest`` repeats in each."""
    for number in range(12):
        rows = {"id": list(range(10 * number, 10 * number + 10)), "rest": list(range(10))}
        write_deltalake(str(tmp_path), pa.table(rows), mode="append")
    return tmp_path


def detail(table):
    best_effort = BestEffort()
    found = table_detail(DeltaLog.for_table(str(table)).snapshot(), best_effort)
    assert best_effort.warnings == []
    return found


def test_a_plain_table_is_described(table):
    found = detail(table)
    assert (found["rows"], found["sizes"]["counts"]) == (120, [12] + [0] * len(SIZE_BOUNDS))
    assert (found["partitioned_by"], found["clustered_by"], found["layout"], found["pins"]) == ([], [], [], [])
    assert found["protocol"] == [1, 2]
    needs = {need["step"]: (need["due"], need["why"]) for need in found["maintenance"]}
    assert needs["optimize"][0]
    assert "12 files" in needs["optimize"][1]
    assert (needs["statistics"][0], needs["checkpoint"]) == (
        False,
        (True, "every reader reads 12 commits; more than 10 are too many"),
    )


def test_the_layout_says_how_many_files_hold_one_value_of_a_clustering_column(table):
    log = DeltaLog.for_table(str(table))
    log.alter().cluster_by("id", "rest")
    assert detail(table)["layout"] == [
        {"column": "id", "files": 12, "mean": 1.0, "most": 1, "unknown": 0},
        {"column": "rest", "files": 12, "mean": 12.0, "most": 12, "unknown": 0},
    ]


def test_live_pins_are_listed_and_many_only_counted(table, monkeypatch):
    now = time.time_ns() // 1_000_000
    run = {"dag_id": "daily", "run_id": "r", "task_id": "pin", "created": now}
    store = DeltaLog.for_table(str(table)).store
    register(store, Pin(id="a" * 32, alias="x", version=3, expires=now + HOUR, **run))
    register(store, Pin(id="b" * 32, alias="x", version=2, expires=now - 1, **run))
    held = {"version": 3, "dag_id": "daily", "task_id": "pin", "run_id": "r", "map_index": -1, "expires": now + HOUR}
    assert detail(table)["pins"] == [held]
    monkeypatch.setattr(module, "_MOST_PINS", 1)
    assert "pins" not in detail(table)
    assert detail(table)["pin_files"] == 2


def test_statistics_of_many_files_are_not_looked_at(table, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 11)
    found = detail(table)
    assert {"rows", "layout", "maintenance"} & found.keys() == set()
    assert sum(found["sizes"]["counts"]) == 12


def test_a_checkpoint_that_followed_a_commit_is_not_due_again(table):
    log = DeltaLog.for_table(str(table))
    log.alter().set_properties({"delta.checkpointInterval": "13"})  # version 12
    log.snapshot()
    log.alter().set_properties({"owner": "x"})  # version 13, with a checkpoint
    log.alter().set_properties({"owner": "y"})
    found = table_detail(log.refresh(), BestEffort())
    [need] = [need for need in found["maintenance"] if need["step"] == "checkpoint"]
    assert (need["due"], need["why"].split(";")[0]) == (False, "every reader reads 1 commit")


def test_what_cannot_be_read_is_a_warning_and_the_rest_is_there(table, monkeypatch):
    def fail(*_):
        raise ValueError("no pins today")

    monkeypatch.setattr(module, "_pins", fail)
    best_effort = BestEffort()
    found = table_detail(DeltaLog.for_table(str(table)).snapshot(), best_effort)
    assert best_effort.warnings == ["looking for pins failed: ValueError: no pins today"]
    assert (found["rows"], "pins" in found) == (120, False)


@given(st.lists(st.integers(0, 1 << 40)))
def test_every_file_is_in_one_bar_of_the_histogram(sizes):
    counts = size_histogram(pa.chunked_array([sizes], pa.int64()))
    ends = [0, *SIZE_BOUNDS, 1 << 62]
    assert counts == [sum(low <= size < high for size in sizes) for low, high in pairwise(ends)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)))
def test_files_of_one_value_are_those_whose_range_holds_it(ranges):
    low, high = (pa.array([pair[end] for pair in ranges], pa.int64()) for end in (0, 1))
    counts = [sum(least <= value <= most for least, most in ranges) for value, _ in ranges]
    mean, most = files_of_one_value(low, high)
    assert (round(mean, 9), most) == (round(sum(counts) / max(1, len(counts)), 9), max(counts, default=0))
