"""A month of daily runs, four at a time, by `airflow backfill create`: what parallel commits and a second time make of it."""

import collections
import os
import sys
from datetime import date, timedelta

import pytest
from deltalake import DeltaTable

from airflow_delta.core import DeltaLog
from tests.dags.truth import ACTUAL, SCHEDULE, arrivals_of, assert_holds, delays_of, with_flights
from tests.standalone.airflow_home import ENDED, wait_until

pytestmark = pytest.mark.slow

DAG_FILES = ("month.py",)
DAYS = [date(2013, 1, 1) + timedelta(days=offset) for offset in range(int(os.environ.get("MONTH_DAYS", "31")))]
AGAIN = DAYS[-5:]
WRITERS = {"arrivals": "bronze", "flights": "silver", "delays": "gold"}
TRUTH = {
    "arrivals": arrivals_of(DAYS),
    "flights": f"""
        SELECT 'actual' AS kind, {ACTUAL} FROM csv WHERE flight_date BETWEEN DATE '{DAYS[0]}' AND DATE '{DAYS[-1]}'
        UNION ALL
        SELECT 'schedule', {SCHEDULE} FROM csv WHERE flight_date = DATE '{DAYS[-1]}' + 1
    """,
    "delays": delays_of(DAYS),
}
SECONDS_FOR_A_DAY = 180


def backfill(airflow, days, *more):
    """Create the backfill and wait until all its runs have ended well."""
    dates = ["--from-date", str(days[0]), "--to-date", str(days[-1])]
    airflow.cli("backfill", "create", "--dag-id", "month", *dates, "--max-active-runs", "4", *more)

    def states():
        return collections.Counter(run["state"] for run in airflow.runs("month"))

    wait_until(lambda: not set(states()) - ENDED, seconds=SECONDS_FOR_A_DAY * len(days), what=lambda: f"runs end: {states()}")
    assert states() == {"success": len(DAYS)}
    wait_until(lambda: has_ended(airflow), seconds=180, what="Airflow notes that the backfill has ended")


def has_ended(airflow):
    """Whether Airflow has noted it, which it does every 30 s: before that, it takes no other backfill of the DAG."""
    return all(backfill["completed_at"] for backfill in airflow.get("backfills", dag_id="month")["backfills"])


def commits(airflow, table):
    """The writing task's commits: version, logical date and token of each, oldest first."""
    history = [(entry.version, entry.commit_info.origin) for entry in DeltaLog.for_table(str(airflow.tables / table)).history()]
    return [
        (version, date.fromisoformat(origin.record["logical_date"][:10]), origin.token)
        for version, origin in sorted(history)
        if origin.record.get("task_id") == WRITERS[table]
    ]


def assert_equals_truth(airflow, reference_reader):
    for table, truth in TRUTH.items():
        assert_holds(reference_reader, airflow.tables / table, truth)


@pytest.fixture(scope="module")
def reference_reader(duckdb_connection):
    return with_flights(duckdb_connection)


@pytest.fixture(scope="module")
def month(airflow):
    """The commits of each table after the month has run."""
    airflow.unpause("month")
    backfill(airflow, DAYS)
    return {table: commits(airflow, table) for table in WRITERS}


def test_every_table_equals_the_truth(airflow, month, reference_reader):
    assert_equals_truth(airflow, reference_reader)


def test_each_run_made_one_commit_in_each_table(month):
    for table, made in month.items():
        assert sorted(day for _, day, _ in made) == DAYS, table
        assert len({token for *_, token in made}) == len(DAYS), table


def test_runs_were_parallel_and_neighbors_conflicted(airflow, month, capsys):
    runs = airflow.runs("month")
    most = max(sum(other["start_date"] <= one["start_date"] < other["end_date"] for other in runs) for one in runs)
    assert most == 4
    results = [airflow.xcom("month", run["dag_run_id"], "silver") for run in runs]
    got_past = [conflict for result in results for conflict in result["conflicts"]]
    tries = collections.Counter((task["task_id"], task["try_number"]) for task in airflow.tasks("month"))
    with capsys.disabled():
        sys.stdout.write(f"\nsilver got past {len(got_past)} conflicts; tries by task: {dict(tries)}\n")
    assert got_past, "no merge met another one: days were not really parallel"


def test_days_done_again_make_new_commits_of_equal_content(airflow, month, reference_reader):
    before = {table: DeltaTable(airflow.tables / table).version() for table in WRITERS}
    backfill(airflow, AGAIN, "--reprocess-behavior", "completed")
    for table in WRITERS:
        new = [commit for commit in commits(airflow, table) if commit[0] > before[table]]
        assert sorted(day for _, day, _ in new) == AGAIN, table
        assert not {token for *_, token in new} & {token for *_, token in month[table]}
    assert_equals_truth(airflow, reference_reader)
