"""After the commit nothing fails a task: what cannot be reported becomes a warning in its result."""

import json

import pytest
from airflow.models.xcom import XComModel
from airflow.sdk import Asset
from airflow.utils.session import create_session

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.table_health.inspected_table import SMALL_FILE
from airflow_delta.operators import DeltaAlterOperator, SetProperties
from airflow_delta.operators import job as job_module
from tests.airflow_versions import AIRFLOW


def alter(table, **arguments):
    changes = [SetProperties({"color": "red"})]
    return DeltaAlterOperator(task_id="alter", table=str(table), changes=changes, engine="worker", **arguments)


def plant_checksum(table, version, histogram):
    """Put a file at the path of a future commit's checksum."""
    snapshot = DeltaLog.for_table(str(table)).snapshot()
    content = {
        "tableSizeBytes": 1,
        "numFiles": 1,
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": snapshot.metadata.to_json(),
        "protocol": snapshot.protocol.to_json(),
        "fileSizeHistogram": histogram,
    }
    (table / "_delta_log" / f"{version:020d}.crc").write_text(json.dumps(content))


@pytest.mark.slow
def test_a_planted_checksum_fails_no_task(empty_table, run_task):
    plant_checksum(
        empty_table, 1, {"sortedBinBoundaries": [0, SMALL_FILE], "fileCounts": ["many", "few"], "totalBytes": [1, 0]}
    )
    run = run_task(lambda: alter(empty_table), dag_id="planted")
    assert (run.state, run.version, run.errors) == ("success", 1, [])


def test_an_event_that_cannot_be_made_is_a_warning(empty_table, run_task, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no event\x1b[2J for password=hunter2")

    monkeypatch.setattr(job_module, "emit_asset_events", fail)
    run = run_task(lambda: alter(empty_table, asset=Asset("a", uri="file:///a")), dag_id="no_event")
    assert (run.state, run.version) == ("success", 1)
    (warning,) = run.result["warnings"]
    assert warning == r"the asset's event failed: RuntimeError: no event\x1b[2J for password=***"


def test_a_checkpoint_that_fails_is_a_warning_of_the_result(empty_table, run_task):
    def make():
        DeltaLog.for_table(str(empty_table)).alter().set_properties({"delta.checkpointInterval": "2"})
        (empty_table / "_delta_log" / f"{2:020d}.checkpoint.parquet").mkdir()
        return alter(empty_table)

    run = run_task(make, dag_id="no_checkpoint")
    assert (run.state, run.version) == ("success", 2)
    assert [warning for warning in run.result["warnings"] if warning.startswith("work after version 2 failed: ")]


def test_a_commit_whose_own_record_is_absurd_is_still_the_result(empty_table, run_task, monkeypatch):
    """The first try is lost; before the second, another writer rewrites its commit."""
    done = DeltaAlterOperator._execute_in_worker

    def lose(self, log, attempt, origin):
        done(self, log, attempt, origin)
        path = empty_table / "_delta_log" / f"{1:020d}.json"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        info = next(line["commitInfo"] for line in lines if "commitInfo" in line)
        info["operationMetrics"] = {"numOutputRows": "9" * 5_000, "__classname__": "os.system", "n": -5, "x": ["\ud800"]}
        if AIRFLOW < (3, 3):  # the derived token is searched in the table's history, which is not JSON to Arrow then
            del info["operationMetrics"]["x"]
        info["airflowDelta"] |= {"sources": 7, "map_index": 10**4_000}
        path.write_text("\n".join(map(json.dumps, lines)))
        raise RuntimeError("the worker is lost")

    monkeypatch.setattr(DeltaAlterOperator, "_execute_in_worker", lose)
    run = run_task(lambda: alter(empty_table), dag_id="absurd", retries=1)
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 1, True)
    lone = {"x": r"['\\ud800']"} if AIRFLOW >= (3, 3) else {}
    assert run.result["metrics"] == {"numOutputRows": "9" * 5_000, "classname__": "os.system", "n": "-5"} | lone
    assert run.result["sources"] == []


def test_a_task_that_is_to_push_no_xcom_pushes_none(empty_table, run_task, airflow_database):
    run = run_task(lambda: alter(empty_table, do_xcom_push=False), dag_id="silent")
    assert (run.state, DeltaLog.for_table(str(empty_table)).snapshot().version) == ("success", 1)
    with create_session() as session:
        assert [row.key for row in session.query(XComModel).filter(XComModel.dag_id == "silent")] == []


def test_a_conflict_of_a_task_that_is_to_push_no_xcom_is_only_raised(empty_table, run_task, concurrent_writer):
    run_task(lambda: alter(empty_table), dag_id="before_conflict")
    concurrent_writer(empty_table, "SET TBLPROPERTIES")

    def make():
        changes = [SetProperties({"color": "blue"})]
        return DeltaAlterOperator(task_id="alter", table=str(empty_table), changes=changes, engine="worker", do_xcom_push=False)

    run = run_task(make, dag_id="silent_conflict")
    assert (run.state, len(run.errors), run.conflict) == ("failed", 1, None)
