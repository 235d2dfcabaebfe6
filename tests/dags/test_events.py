"""The event-driven consumer, started as an event would start it; what starts it, a live Airflow shows in tests/standalone."""

from datetime import date

import pendulum
import pyarrow as pa
import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow.utils.session import create_session
from deltalake import DeltaTable, write_deltalake
from sqlalchemy import select

from flights_events import GOLD, dag


@pytest.mark.slow
def test_a_run_processes_what_is_new_once_and_announces_it(tmp_path, run_dag, xcom, monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'
    )
    flights = pa.table(
        {"flight_date": [date(2013, 1, day) for day in (1, 1, 2)], "dep_delay": pa.array([2, None, 5], pa.int32())}
    )
    write_deltalake(tmp_path / "flights", flights.slice(0, 1))
    write_deltalake(tmp_path / "flights", flights.slice(1), mode="append")

    run = run_dag(dag, logical_date=None, run_conf={"root": str(tmp_path)})  # as runs are that events start
    assert (str(run.state.value), run.logical_date) == ("success", None)
    pushed = xcom(run, "new_commits")
    assert (pushed["from_version"], pushed["to_version"], pushed["previous_version"]) == (0, 1, -1)
    rows = DeltaTable(tmp_path / "days").to_pyarrow_table().sort_by("flight_date").to_pylist()
    assert rows == [
        {"flight_date": date(2013, 1, 1), "flights": 2, "mean_dep_delay": 2.0},
        {"flight_date": date(2013, 1, 2), "flights": 1, "mean_dep_delay": 5.0},
    ]
    assert xcom(run, "days")["sources"] == [{"table": str(tmp_path / "flights"), "version": 1}]
    with create_session() as session:
        query = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id).where(AssetModel.name == GOLD.name)
        assert [event.extra["delta"]["version"] for event in session.scalars(query)] == [1]

    again = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 2), run_conf={"root": str(tmp_path)})  # and by the clock
    assert (str(again.state.value), xcom(again, "new_commits"), xcom(again, "days")) == ("success", None, None)


def test_the_consumer_wakes_by_event_or_by_clock_and_runs_one_after_the_other():
    assert [asset.name for asset in dag.timetable.asset_condition.objects] == ["flights.silver"]
    assert dag.max_active_runs == 1
    assert pendulum.datetime(2013, 1, 1) == dag.start_date
