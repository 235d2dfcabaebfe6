"""Mapped merges of one table as Airflow runs them; one after the other here, as dag.test does, at once in tests/standalone."""

import pendulum
import pytest
from deltalake import DeltaTable

from flights_demo.feed import packaged_csv, read_flights
from flights_mapped_merges import AIRLINES, dag


@pytest.mark.slow  # four Spark jobs
def test_each_airline_is_merged_as_a_commit_of_its_own(tmp_path, run_dag, xcom, mapped_xcoms, monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'
    )
    dag_run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2), run_conf={"root": str(tmp_path)})
    assert str(dag_run.state.value) == "success"
    merged = mapped_xcoms(dag_run, "merge")
    results = sorted(
        (merge["version"], merge["committed"], merge["conflicts"]) for merge in merged
    )  # which goes first is not said
    assert results == [(1, True, []), (2, True, [])]
    assert xcom(dag_run, "passed") == {"1": [], "2": []}

    flights = read_flights(packaged_csv("flights.csv.zip")).to_pylist()
    key = ("carrier", "flight", "time_hour")
    first = pendulum.date(2013, 1, 1)
    expected = {tuple(flight[name] for name in key) for flight in flights if flight["flight_date"] == first}
    found = DeltaTable(tmp_path / "board").to_pyarrow_table(columns=list(key)).to_pylist()
    assert {tuple(row[name] for name in key) for row in found} == {row for row in expected if row[0] in AIRLINES}
    record = [entry["airflowDelta"] for entry in DeltaTable(tmp_path / "board").history(2)]
    assert sorted((entry["task_id"], entry["map_index"]) for entry in record) == [("merge", 0), ("merge", 1)]
