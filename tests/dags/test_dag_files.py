import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    environment = os.environ | {
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    command = [sys.executable, str(Path(__file__).with_name("describe_dags.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout[done.stdout.index('{"errors"') :])


def test_every_dag_file_is_read_without_error(described):
    assert described["errors"] == {}
    files = Path(__file__).parents[2].joinpath("dags").glob("flights_*.py")
    assert sorted(described["dags"]) == sorted(file.stem for file in files)


def test_reading_dag_files_touches_no_file_and_no_network(described):
    assert described["touched"] == []


def test_a_day_goes_from_the_feed_over_three_tables_to_maintenance(described):
    assert described["dags"]["flights_daily"]["tasks"] == {
        "feed": ["bronze"],
        "silver_table": ["silver"],
        "bronze": ["silver"],
        "silver": ["silver_is_there"],
        "silver_is_there": ["gold"],
        "gold": ["upkeep"],
        "upkeep": [],
    }


def test_the_daily_dag_has_bounds_so_that_backfills_behave(described):
    daily = described["dags"]["flights_daily"]
    assert (daily["start"][:10], daily["end"][:10]) == ("2013-01-01", "2013-12-30")
    assert (daily["max_active_runs"], daily["catchup"]) == (1, False)


def test_the_sensor_waits_in_a_dag_of_its_own(described):
    assert described["dags"]["flights_watch"]["tasks"] == {"wait_for_flights": []}
