"""The pipeline as a user runs it: real Airflow runs, real spark-submit, read by independent engines."""

import shutil
from datetime import date
from pathlib import Path

import pendulum
import pytest
from deltalake import DeltaTable

import flights_backfill
from flights_demo.home import Home
from tests.dags.truth import ACTUAL, SCHEDULE, arrivals_of, assert_holds, delays_of, with_flights

pytestmark = pytest.mark.slow  # two days of seven Spark jobs take some minutes

FIRST, SECOND, THIRD = date(2013, 1, 1), date(2013, 1, 2), date(2013, 1, 3)
TABLES = ("arrivals", "flights", "delays")

TRUTH = {
    "arrivals": arrivals_of((FIRST, SECOND)),
    "flights": f"""
        SELECT 'actual' AS kind, {ACTUAL} FROM csv
        WHERE flight_date IN (DATE '{FIRST}', DATE '{SECOND}') AND dep_time IS NOT NULL
        UNION ALL
        SELECT 'schedule', {SCHEDULE} FROM csv WHERE flight_date = DATE '{THIRD}'
    """,
    "delays": delays_of((FIRST, SECOND)),
}
COUNTS = {"arrivals": 842 + 943 + 943 + 914, "flights": (842 - 4) + (943 - 8) + 914}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("pipeline") / "home")
    home.create()
    return home


@pytest.fixture(scope="module")
def reference_reader(duckdb_connection):
    return with_flights(duckdb_connection)


def run(home, day):
    """Run the day to its end and return what its tasks returned."""
    code = home.start("flights_daily", day).wait(timeout=1800)
    assert code == 0, home.log_file("flights_daily", day).read_text()[-8_000:]
    tasks = home.task_runs("flights_daily", day)
    assert {task.state for task in tasks} == {"success"}
    return {task.task_id: task.returned for task in tasks}


@pytest.fixture(scope="module")
def two_days(home):
    """What the tasks of two days returned; while the first day ran, the sensor waited in a DAG of its own."""
    watch = home.start("flights_watch", FIRST)
    try:
        home.await_begin(watch, "flights_watch", FIRST)
        results = {day: run(home, day) for day in (FIRST, SECOND)}
        assert watch.wait(timeout=600) == 0
    finally:
        watch.kill()
    return results


def versions(home):
    return {name: DeltaTable(home.tables / name).version() for name in TABLES}


def assert_equals_truth(home, reference_reader):
    for name, truth in TRUTH.items():
        assert_holds(reference_reader, home.tables / name, truth)


def test_two_days_make_the_tables_that_follow_from_the_csv(home, two_days, reference_reader):
    assert_equals_truth(home, reference_reader)
    counted = {name: DeltaTable(home.tables / name).to_pyarrow_table().num_rows for name in COUNTS}
    assert counted == COUNTS


def test_each_task_says_what_it_did(two_days):
    first, second = two_days.values()
    assert [first[task]["version"] for task in ("bronze", "silver", "gold")] == [0, 1, 0]
    assert first["silver_is_there"] == 1
    assert int(first["bronze"]["metrics"]["numOutputRows"]) == 842 + 943
    counted = [int(second["silver"]["metrics"][f"numTargetRows{change}"]) for change in ("Inserted", "Updated", "Deleted")]
    assert counted == [914, 943 - 8, 8]
    assert second["silver"]["read_version"] == second["silver"]["version"] - 1


def test_the_sensor_really_waited_for_the_first_merge(home, two_days):
    (watched,) = home.task_runs("flights_watch", FIRST)
    assert (watched.state, watched.returned) == ("success", 1)
    assert "Waiting for a commit after version -1" in home.log_file("flights_watch", FIRST).read_text()


def test_every_commit_names_the_dag_run_that_made_it(home, two_days):
    made = {name: [entry["job"] for entry in DeltaTable(home.tables / name).history()] for name in TABLES}
    first, second = sorted({job["jobRunId"] for jobs in made.values() for job in jobs})
    tasks = {name: [(job["jobName"].removeprefix("flights_daily."), job["jobRunId"]) for job in made[name]] for name in TABLES}
    assert tasks == {
        "arrivals": [("bronze", second), ("bronze", first)],
        "flights": [("silver", second), ("silver", first), ("silver_table", first)],
        "delays": [("gold", second), ("gold", first)],
    }


def test_a_backfill_by_version_makes_the_reports_of_the_live_runs_again(home, two_days, tmp_path, run_dag, xcom, monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'
    )
    tables = Path(shutil.copytree(home.tables, tmp_path / "tables"))
    DeltaTable(tables / "flights").delete("carrier = 'UA'")  # what may have become of the flights since
    for day in (FIRST, SECOND):
        at = pendulum.datetime(day.year, day.month, day.day)
        made = run_dag(flights_backfill.dag, logical_date=at, run_conf={"root": str(tables)})
        assert str(made.state.value) == "success"
        assert xcom(made, "pin")["flights"]["version"] == two_days[day]["silver"]["version"]
    again, live = (
        DeltaTable(tables / name).to_pyarrow_table().sort_by([("flight_date", "ascending"), ("carrier", "ascending")])
        for name in ("delays_again", "delays")
    )
    assert len(live)
    assert again.equals(live)


def test_the_first_day_run_again_commits_again_and_changes_nothing(home, two_days, reference_reader):
    before = versions(home)
    again = run(home, FIRST)
    assert again["bronze"]["version"] == before["arrivals"] + 1
    assert again["silver"]["committed"]
    assert_equals_truth(home, reference_reader)
