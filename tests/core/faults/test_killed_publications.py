"""A process killed anywhere while publishing to two tables leaves each unchanged or complete; a repeated call does the rest."""

import signal
from pathlib import Path
from random import Random

import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements.publish import PUBLISHED_KEY
from tests.core.faults.scenarios import SEVERAL_TABLES

BEFORE, AFTER = (5, False), (6, True)
SEEN = {(BEFORE, BEFORE), (AFTER, BEFORE), (AFTER, AFTER)}
IN_SAMPLE = 2


def states_of(folder):
    """For each table the number of versions, and whether the staged files are in the last one."""
    snapshots = [DeltaLog.for_table(str(folder / name)).snapshot() for name in ("a", "b")]
    return [(snapshot.version, "h" in snapshot.files()["path"].to_pylist()) for snapshot in snapshots]


def made(folder):
    folder.mkdir()
    SEVERAL_TABLES.prepare(folder)
    return folder


def kill_publication(run_killed, folder, number):
    """Kill publishing before this event; returns what readers see then. A repeated call does the rest."""
    assert run_killed(SEVERAL_TABLES, folder, number) == -signal.SIGKILL
    states = states_of(folder)
    assert tuple(states) in SEEN, number
    result = SEVERAL_TABLES.run(SEVERAL_TABLES.log(folder))
    assert states_of(folder) == [AFTER, AFTER]
    published = [(entry["version"], entry["already_published"]) for entry in result.details[PUBLISHED_KEY]]
    assert published == [(6, state == AFTER) for state in states]
    return tuple(states)


def events_of(run_killed, folder):
    assert run_killed(SEVERAL_TABLES, made(folder)) == 0
    return int(Path(f"{folder}.count").read_text())


def test_killed_at_some_points_each_table_is_published_or_not_and_a_retry_goes_on(run_killed, tmp_path):
    places = Random("publish").sample(range(events_of(run_killed, tmp_path / "counted")), IN_SAMPLE)
    for number in places:
        kill_publication(run_killed, made(tmp_path / str(number)), number)


@pytest.mark.slow
def test_killed_at_any_point_each_table_is_published_or_not_and_a_retry_goes_on(run_killed, tmp_path):
    events = events_of(run_killed, tmp_path / "counted")
    seen = {kill_publication(run_killed, made(tmp_path / str(number)), number) for number in range(events)}
    assert seen == SEEN
