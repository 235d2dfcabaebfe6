"""What a task reports of the commits it raced with."""

import pytest

from airflow_delta.core.errors import ConcurrentWriteError
from airflow_delta.operators import DeltaAlterOperator, DeltaRestoreOperator, SetProperties


@pytest.fixture
def contested(empty_table, run_task):
    """A table of two versions."""
    run_task(
        lambda: DeltaAlterOperator(
            task_id="alter", table=str(empty_table), changes=[SetProperties({"color": "red"})], engine="worker"
        ),
        dag_id="before",
    )
    return empty_table


def test_a_conflict_that_fails_the_task_names_the_winning_commit_and_its_dag_run(contested, run_task, concurrent_writer):
    winner = concurrent_writer(contested, "RESTORE")
    run = run_task(lambda: DeltaRestoreOperator(task_id="restore", table=str(contested), version=0, engine="worker"))
    assert run.state == "failed"
    (error,) = run.errors
    assert isinstance(error, ConcurrentWriteError)
    assert error.winning_run == winner
    report = run.conflict
    assert (report["code"], report["table"]) == ("DELTA_CONCURRENT_WRITE", str(contested))
    assert (report["read_version"], report["winning_version"], report["winning_operation"]) == (1, 2, "SET TBLPROPERTIES")
    assert report["lost_ms"] > 0
    assert (report["winning_run"], report["rule"]) == (winner, "rebase_forbidden")
    assert report["winning_job"]["jobName"] == "hourly.correct"
    assert "Remedy:" in report["text"]


def test_a_conflict_is_tried_again_soon_and_passes_once_no_other_writer_is_in_the_way(contested, run_task, concurrent_writer):
    concurrent_writer(contested, "RESTORE")
    run = run_task(lambda: DeltaRestoreOperator(task_id="restore", table=str(contested), version=0, engine="worker"), retries=1)
    assert (run.state, run.version, len(run.errors)) == ("success", 3, 1)
    assert run.conflict is None
