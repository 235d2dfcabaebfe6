"""How many tasks share some work, and which takes what: by bytes, whatever the cores of the moment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.spark.io.tasks import MAX_TASKS, OPENING_BYTES, TASK_BYTES, file_work, in_tasks, packed, task_count

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
work_of_units = st.lists(st.floats(1, 1e12), max_size=200).map(np.array)


@pytest.mark.parametrize(
    ("files", "mib_each", "share", "tasks"),
    [
        (0, 0, 1, 1),
        (1, 1_000, 1, 1),
        (16, 2, 1, 2),
        (16, 18, 1, 6),
        (16, 18, 1 / 8, 2),
        (16, 0, 0, 2),
        (400, 64, 1, 400),
        (20_000, 0, 1, 312),
    ],
    ids=["none", "one", "little", "more", "a part of more", "nothing of them", "much", "many"],
)
def test_tasks_are_one_for_each_core_unless_there_is_more_to_read_or_to_open(files, mib_each, share, tasks):
    assert task_count(file_work([mib_each * MIB] * files, share).sum(), files, 2) == tasks


@pytest.mark.parametrize("cores", [1, 2, 16, 500])
def test_large_work_has_its_tasks_whatever_cores_there_are(cores):
    assert task_count(200 * GIB, 1 << 20, cores) == 200 * GIB // TASK_BYTES
    assert task_count(100 * TIB, 1 << 20, cores) == MAX_TASKS


@given(st.floats(0, 1e18), st.integers(0, 1 << 40), st.integers(1, 1 << 20))
def test_there_is_a_task_and_never_more_than_units_or_than_a_driver_bears(work, units, cores):
    assert 1 <= task_count(work, units, cores) <= max(1, min(units, MAX_TASKS))


@given(work_of_units, st.integers(1, 50))
def test_no_task_has_more_than_its_share_and_its_largest_unit(work, tasks):
    places = packed(work, tasks)
    assert places.tolist() == sorted(places)
    used = set(places.tolist())
    assert used == set(range(len(used)))
    assert len(used) <= tasks
    for task in used:
        mine = work[places == task]
        assert mine.sum() <= (work.sum() / tasks + mine.max()) * (1 + 1e-9)


@given(work_of_units, st.integers(1, 50))
def test_every_unit_is_dealt_out_once_in_order(work, tasks):
    dealt = in_tasks(list(range(len(work))), work, tasks)
    assert [unit for units in dealt for unit in units] == list(range(len(work)))
    assert all(dealt)


def test_files_of_one_size_are_dealt_out_evenly():
    assert list(map(len, in_tasks(range(16), file_work([MIB] * 16), 6))) == [3, 2, 3, 3, 2, 3]


def test_units_that_cost_nothing_are_dealt_out_by_their_number():
    assert packed(np.zeros(4), 2).tolist() == [0, 0, 1, 1]


def test_a_large_file_has_a_task_of_its_own_and_small_ones_share_one():
    dealt = in_tasks(["large", "a", "b", "c"], file_work([GIB, MIB, MIB, MIB]), 4)
    assert dealt == [["large"], ["a", "b", "c"]]


def test_opening_a_file_is_work_however_little_is_read_of_it():
    assert file_work([10 * OPENING_BYTES], 0.5).tolist() == [6 * OPENING_BYTES]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=50), st.floats(0, 1), st.integers(1, 20))
def test_every_file_is_dealt_out_once_in_order_whatever_size_a_log_says(sizes, share, tasks):
    places = packed(file_work(sizes, share), tasks)
    assert places.tolist() == sorted(places)
    assert set(places.tolist()) == set(range(len(set(places.tolist()))))
