"""The example of alerts as Airflow runs it, with a task of another DAG run that commits while the table is restored."""

import json

import pendulum
import pytest
from deltalake import DeltaTable

from flights_conflict_alert import dag


@pytest.mark.slow
def test_the_losing_task_reports_the_winner_and_tries_again(tmp_path, run_dag, xcom, concurrent_writer):
    table = tmp_path / "contested"
    winner = concurrent_writer(table, "RESTORE")
    dag_run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2), run_conf={"root": str(tmp_path)})
    assert str(dag_run.state.value) == "success"
    (report,) = map(json.loads, (tmp_path / "conflicts.jsonl").read_text().splitlines())
    assert (report["code"], report["winning_version"]) == ("DELTA_CONCURRENT_WRITE", report["read_version"] + 1)
    assert (report["winning_run"], report["winning_operation"]) == (winner, "SET TBLPROPERTIES")
    assert report["run_id"] == dag_run.run_id
    assert report["message"].startswith(f"flights_conflict_alert.roll_back, run {dag_run.run_id}, try 1: ")
    assert "made by hourly.correct" in report["message"]
    history = {entry["version"]: entry for entry in DeltaTable(table).history()}
    restored, won = max(history), history[report["winning_version"]]
    assert xcom(dag_run, "roll_back", "delta_version") == restored
    assert (history[restored]["operation"], won["operation"]) == ("RESTORE", "SET TBLPROPERTIES")
    # "describe" commits before or after the winner: which of the two tasks Airflow takes first is its own choice.
    assert (len(history), won["airflowDelta"]["run_id"]) == (5, winner["run_id"])


def test_no_alert_is_sent_without_a_conflict(tmp_path, run_dag):
    dag_run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 3), run_conf={"root": str(tmp_path)})
    assert str(dag_run.state.value) == "success"
    assert not (tmp_path / "conflicts.jsonl").exists()
