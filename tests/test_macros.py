"""The macros as templates see them."""

import pendulum
import pyarrow as pa
import pytest
from airflow.sdk import DAG
from airflow.sdk.api.datamodels._generated import DagRun
from airflow.sdk.execution_time.comms import AssetEventDagRunReferenceResult
from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor
from deltalake import write_deltalake

from airflow_delta.macros import from_version, run_date, to_version
from airflow_delta.operators import DeltaPinOperator, Version

DAY = pendulum.datetime(2013, 1, 2)


def test_templates_ask_for_the_runs_date_and_for_what_it_has_pinned(tmp_path, run_dag, xcom):
    for day in range(1, 4):
        for number in range(day):
            write_deltalake(str(tmp_path / f"2013-01-0{day}"), pa.table({"n": [number]}), mode="append")
    with DAG("asks_macros", schedule=None, start_date=DAY) as dag:
        tables = {"orders": f"{tmp_path}/{{{{ macros.delta.run_date(dag_run) }}}}"}
        pin = DeltaPinOperator(task_id="pin", tables=tables)
        again = DeltaPinOperator(
            task_id="again", tables=tables, as_of=Version("{{ macros.delta.pinned_version(ti, 'orders') - 1 }}")
        )
        nothing = DeltaPinOperator(
            task_id="nothing", tables=tables, as_of=Version("{{ macros.delta.pinned_version(ti, 'rates') }}")
        )
        pin >> [again, nothing]
    run = run_dag(dag, logical_date=DAY)
    assert (xcom(run, "pin", "orders"), xcom(run, "again", "orders")) == (1, 0)
    assert {ti.task_id: ti.state for ti in run.get_task_instances()}["nothing"] == "failed"


def test_a_run_without_a_logical_date_is_for_the_date_it_was_due():
    assert run_date(DagRun.model_construct(logical_date=None, run_after=DAY)) == "2013-01-02"
    assert run_date(DagRun.model_construct(logical_date=DAY.add(days=-1), run_after=DAY)) == "2013-01-01"


@pytest.fixture
def events():
    """Three events of one asset, two by operators and one by a watcher, and one of another asset without versions."""

    def event(name, extra):
        return AssetEventDagRunReferenceResult.model_validate(
            {
                "asset": {"name": name, "uri": f"s3://lake/{name}", "extra": {}},
                "extra": extra,
                "source_task_id": None,
                "source_dag_id": None,
                "source_run_id": None,
                "source_map_index": None,
                "source_aliases": [{"name": "alias"}],
                "timestamp": DAY,
            }
        )

    return TriggeringAssetEventsAccessor.build(
        [
            event("orders", {"delta": {"table": "s3://lake/orders", "version": 7, "read_version": 6}}),
            event("orders", {"from_trigger": True, "payload": {"from_version": 3, "to_version": 6}}),
            event("orders", {"delta": {"version": 5, "read_version": 4}}),
            event("rates", {"delta": {"version": 40, "read_version": 39}}),
            event("files", {"from_trigger": True, "payload": "a text"}),
            event("nothing", {}),
            event("posted", {"delta": {"version": "3 UNION ALL SELECT * FROM payroll"}}),
            event("posted", {"delta": {"from_version": "2", "version": 4}}),
        ]
    )


@pytest.mark.parametrize(
    ("asset", "versions"),
    [
        (None, (2, 40)),
        ("orders", (3, 7)),
        ("s3://lake/orders", (3, 7)),
        ("rates", (40, 40)),
        ("files", (None, None)),
        ("nothing", (None, None)),
        ("posted", (2, 4)),
        ("unknown", (None, None)),
    ],
)
def test_the_versions_that_the_events_of_a_run_announce(events, asset, versions):
    assert (from_version(events, asset), to_version(events, asset)) == versions
