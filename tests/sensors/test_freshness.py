"""Waiting until a table's data is fresh: a commit that changes rows, in the time before each poke."""

import os
import time
from datetime import timedelta

import pendulum
import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.sensors import DeltaCommitSensor
from airflow_delta.watch.commit_watch import CommitWatch
from airflow_delta.watch.commit_window import CommitWindow
from airflow_delta.watch.waits import CommitWait
from tests.watched_table import WatchedTable

HOUR = 3_600_000


@pytest.fixture
def table(tmp_path):
    return WatchedTable(tmp_path / "table")


def at(table, hours_ago, commit):
    when = time.time() - 3_600 * hours_ago
    version = commit()
    os.utime(table.root / commit_path(version), (when, when))
    return version


def poke(table, context, **arguments):
    return DeltaCommitSensor(task_id="fresh", table=str(table.root), **arguments).poke(context).xcom_value


def test_a_table_is_fresh_if_its_rows_changed_in_the_time_before_the_poke(table, context):
    at(table, 5, table.create)
    at(table, 3, table.write)
    assert poke(table, context, fresh_within="2h") is None
    at(table, 1, table.write)
    newest = at(table, 0.5, table.write)
    assert poke(table, context, fresh_within="2h") == newest
    assert poke(table, {**context}, fresh_within=timedelta(hours=4)) == newest


def test_maintenance_does_not_make_data_fresh(table, context):
    at(table, 5, table.create)
    at(table, 3, table.write)
    at(table, 0.1, table.optimize)
    assert poke(table, context, fresh_within="2h") is None
    assert poke(table, context, fresh_within="4h") == 2  # the latest version, which holds the fresh rows


def test_a_commit_that_grew_old_before_it_was_seen_does_not_count(table):
    """The window moves with each poll: a triggerer that was down for hours must not report old rows as fresh."""
    at(table, 0, table.create)
    now = [round(time.time() * 1_000)]
    wait = CommitWait(after=-1, window=CommitWindow.lately("1h"), wanted=CommitWait(after=0).wanted)
    watch = CommitWatch(table.store, CommitWait.from_json(wait.to_json()), clock=lambda: now[0])
    now[0] += 3 * HOUR
    assert watch.poll() is None
    version = at(table, -2.5, table.write)
    assert watch.poll() == version


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2h", 2 * HOUR),
        (" 90 min ", 90 * 60_000),
        ("45s", 45_000),
        ("1 day 12 hours", 36 * HOUR),
        (timedelta(minutes=5), 300_000),
        (pendulum.duration(minutes=5), 300_000),
    ],
)
def test_the_time_is_an_interval(text, milliseconds):
    assert CommitWindow.lately(text).within == milliseconds


@pytest.mark.parametrize("wrong", ["", "soon", "2 months", "0h", "-1h", 7, timedelta(0)])
def test_what_is_no_time_is_refused_when_the_dag_is_parsed(wrong):
    with pytest.raises(InvalidStatementError, match="fresh_within must be"):
        DeltaCommitSensor(task_id="fresh", table="/lake/t", fresh_within=wrong)


def test_rows_cannot_be_counted_over_a_moving_window():
    with pytest.raises(InvalidStatementError, match="exclude each other"):
        DeltaCommitSensor(task_id="fresh", table="/lake/t", fresh_within="2h", min_rows=3)
