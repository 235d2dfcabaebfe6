"""The nightly maintenance as Airflow runs it: mapped over tables, Spark only where small files are."""

from datetime import date

import pendulum
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.core.log.file_names import checkpoint_path
from flights_maintenance import dag

SPARK = '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Arrivals need nothing, flights have three small files in one partition, delays have too many commits."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", SPARK)
    write_deltalake(tmp_path / "arrivals", pa.table({"flight": [1]}))
    for number, day in enumerate([1, 1, 1, 2]):
        rows = pa.table({"flight_date": [date(2013, 1, day)], "flight": [number]})
        write_deltalake(tmp_path / "flights", rows, mode="append", partition_by=["flight_date"])
    for number in range(11):
        write_deltalake(tmp_path / "delays", pa.table({"flights": [number]}), mode="overwrite")
    return tmp_path


@pytest.mark.slow
def test_every_table_gets_what_it_needs_and_no_more(root, run_dag, mapped_xcoms):
    conf = {"root": str(root), "min_small_files": 3}
    dag_run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2), run_conf=conf)
    assert str(dag_run.state.value) == "success"
    small = [result["details"]["figures"]["small_files"] for result in mapped_xcoms(dag_run, "health")]
    deletable = [result["metrics"]["numFilesToDelete"] for result in mapped_xcoms(dag_run, "would_delete")]
    assert (small, deletable) == ([1, 4, 1], [0, 0, 0])
    done = [
        [(step["step"], step["version"]) for step in result["details"]["steps"] if step["done"]]
        for result in mapped_xcoms(dag_run, "maintenance")
    ]
    assert done == [[], [("optimize", 4)], [("checkpoint", None)]]
    assert (root / "delays" / checkpoint_path(10)).exists()
    flights = DeltaTable(root / "flights")
    assert len(flights.file_uris()) == 2
    assert sorted(flights.to_pyarrow_table()["flight"].to_pylist()) == [0, 1, 2, 3]
