"""Maintenance as a task: what does it, and what its result reports."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.log.file_names import checkpoint_path
from airflow_delta.core.statements import MaintenanceStatement
from airflow_delta.core.statements.health import STEPS
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.jobs.errors import MaintenanceFailedError
from airflow_delta.operators import DeltaMaintenanceOperator


def maintenance(table, **arguments):
    return DeltaMaintenanceOperator(task_id="maintenance", table=str(table), **arguments)


@pytest.fixture
def table(tmp_path):
    """A table of three small files; nothing is due but what a test arranges."""
    path = tmp_path / "table"
    for number in range(3):
        write_deltalake(str(path), pa.table({"id": [number]}), mode="append")
    return path


def steps(run, key="done"):
    return {step["step"]: step[key] for step in run.result["details"]["steps"]}


def test_with_nothing_due_no_spark_is_started(table, run_task):
    run = run_task(lambda: maintenance(table, conn_id="none", spark_binary="/nowhere"))
    assert (run.state, run.errors) == ("success", [])
    assert steps(run) == dict.fromkeys(STEPS, False)
    assert (run.version, run.result["committed"]) == (2, False)


def test_what_needs_no_spark_is_done_in_the_worker(table, run_task):
    run = run_task(lambda: maintenance(table, conn_id="none", spark_binary="/nowhere", max_commits="{{ 1 + 1 }}"))
    assert [name for name, done in steps(run).items() if done] == ["checkpoint"]
    assert (table / checkpoint_path(2)).exists()


def test_small_files_make_it_one_spark_job_that_does_all_steps(table, recording_submit, run_task):
    submit = recording_submit()
    run = run_task(
        lambda: maintenance(
            table, conn_id="spark_local", spark_binary=str(submit.path), min_small_files="3", retention_hours="200"
        )
    )
    assert run.state == "success"
    (call,) = submit.calls
    statement = call["spec"]["statement"]
    assert (statement["$type"], statement["steps"]) == ("maintenance", list(STEPS))
    assert (statement["min_small_files"], statement["retention_hours"]) == (3, 200.0)
    assert any(argument.endswith("/delta_maintenance.py") for argument in call["argv"])
    assert run.version == 1  # what the recording job says


def test_where_the_worker_cannot_see_the_table_spark_looks(recording_submit, run_task, tmp_path):
    submit = recording_submit()
    run = run_task(
        lambda: maintenance(
            "hdfs://nowhere/t", conn_id="spark_local", spark_binary=str(submit.path), scratch_uri=str(tmp_path / "scratch")
        )
    )
    assert (run.state, len(submit.calls)) == ("success", 1)


def test_a_dry_run_reports_what_is_due_and_needs_no_spark(table, run_task):
    run = run_task(lambda: maintenance(table, conn_id="none", min_small_files=3, max_commits=1, dry_run=True))
    assert [name for name, due in steps(run, "due").items() if due] == ["optimize", "checkpoint"]
    assert steps(run) == dict.fromkeys(STEPS, False)
    assert not (table / checkpoint_path(2)).exists()


def test_a_lost_job_is_no_success_though_one_of_its_steps_has_committed(table, recording_submit, run_task):
    commit = """
from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
if number == 1:
    log = DeltaLog.for_table(spec["statement"]["table"])
    operation = Operation(name="OPTIMIZE", changes_data=False)
    log.start_transaction().commit(operation=operation, origin=Origin(token=spec["origin"]["token"]), allow_empty=True)
    sys.exit(137)
"""
    submit = recording_submit(commit)
    arguments = {"conn_id": "spark_local", "spark_binary": str(submit.path), "min_small_files": 3}
    run = run_task(lambda: maintenance(table, **arguments), retries=1)
    assert (run.state, len(run.errors)) == ("success", 1)
    first, second = submit.calls  # the second try looks again, with the same token
    assert first["spec"]["origin"]["token"] == second["spec"]["origin"]["token"]


def test_a_failed_step_fails_the_task_and_reports_what_was_done(table, run_task):
    data = next(table.glob("*.parquet"))
    data.write_bytes(b"no Parquet")
    log = DeltaLog.for_table(str(table))
    bare = log.snapshot().files().filter(pc.equal(log.snapshot().files()["path"], data.name))
    column = bare.schema.get_field_index("stats")
    bare = bare.set_column(column, "stats", pa.nulls(1, pa.string()))
    log.start_transaction().commit(adds=bare, operation=Operation(name="COMPUTE STATS", changes_data=False))
    (error,) = run_task(lambda: maintenance(table, max_commits=2, conn_id="none")).errors
    assert isinstance(error, MaintenanceFailedError)
    assert [text.split(":")[0] for text in error.failed] == ["statistics"]
    assert error.done[0].startswith("checkpoint (every reader reads 4 commits")


def test_arguments_become_a_statement():
    given = maintenance("t", steps=["vacuum"], where="p = 1", target_file_size="1024", small_file_size="512", max_commits="3")
    assert given.statement() == MaintenanceStatement(
        table="t", steps=("vacuum",), where="p = 1", target_file_size=1024, small_file_size=512, max_commits=3
    )
    assert maintenance("t").statement() == MaintenanceStatement(table="t")


@pytest.mark.parametrize("arguments", [{"max_commits": "many"}, {"steps": ["zorder"]}, {"min_small_files": "1"}])
def test_arguments_that_make_no_statement_are_refused_when_the_dag_is_parsed(arguments):
    with pytest.raises(InvalidStatementError):
        maintenance("t", **arguments)
