"""The health check as a task: what it reports, and when it fails."""

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_delta.core.errors import InvalidStatementError, TableNotFoundError
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.statements import HealthStatement
from airflow_delta.jobs.errors import TableUnhealthyError
from airflow_delta.operators import DeltaTableHealthOperator


def health(table, **arguments):
    return DeltaTableHealthOperator(task_id="health", table=str(table), **arguments)


@pytest.fixture
def broken_table(empty_table):
    (empty_table / commit_path(1)).write_text("{not JSON}\n")
    return empty_table


@pytest.fixture
def short_table(empty_table):
    """A table about which there is only a warning."""
    log = empty_table / commit_path(0)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[2]["metaData"]["configuration"] = {"delta.deletedFileRetentionDuration": "interval 1 hour"}
    log.write_text("\n".join(map(json.dumps, lines)))
    return empty_table


def test_a_sound_table_gives_its_figures_without_spark(tmp_path, run_task):
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1, 2, 3]}))
    run = run_task(lambda: health(tmp_path / "t", spark_binary="/nowhere", conn_id="none"))
    assert (run.state, run.version, run.errors) == ("success", 0, [])
    assert (run.result["operation"], run.result["committed"]) == ("HEALTH", False)
    assert run.result["details"]["findings"] == []
    figures = run.result["details"]["figures"]
    assert (figures["files"], figures["small_files"], figures["unneeded_files"]) == (1, 1, 0)


def test_a_table_that_does_not_open_fails_the_task_with_finding_and_remedy_and_leaves_the_xcom(broken_table, run_task):
    run = run_task(lambda: health(broken_table), retries=2)
    (error,) = run.errors
    assert isinstance(error, TableUnhealthyError)
    assert error.findings[0].startswith("DELTA_CORRUPT_LOG: ")
    assert "backup" in error.cure
    assert run.state == "failed"
    (finding,) = run.result["details"]["findings"]
    assert (finding["severity"], finding["code"]) == ("error", "DELTA_CORRUPT_LOG")
    assert finding["files"] == [commit_path(1)]


def test_every_try_looks_again_however_broken_the_log_is(broken_table, run_task):
    run = run_task(lambda: health(broken_table, retry_policy=None), retries=1)
    assert [type(error) for error in run.errors] == [TableUnhealthyError] * 2


@pytest.mark.parametrize(("fail_on", "state"), [("error", "success"), ("warning", "failed"), (None, "success")])
def test_a_warning_fails_a_task_with_fail_on_warning(short_table, run_task, fail_on, state):
    run = run_task(lambda: health(short_table, fail_on=fail_on))
    assert run.state == state
    assert [finding["code"] for finding in run.result["details"]["findings"]] == ["RETENTION_SHORT"]


def test_every_finding_is_logged_with_its_remedy(short_table, run_task, capsys):
    run_task(lambda: health(short_table))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "warning RETENTION_SHORT: " in line]
    assert "warning RETENTION_SHORT: delta.deletedFileRetentionDuration is 1 hours" in line
    assert "Remedy: set it longer than the longest job takes" in line


def test_where_there_is_no_table_the_task_says_so(tmp_path, run_task):
    (error,) = run_task(lambda: health(tmp_path / "none")).errors
    assert isinstance(error, TableNotFoundError)


def test_with_spark_the_job_gets_the_arguments_of_the_check(empty_table, recording_submit, run_task):
    outcome = """
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
finding = dict(severity="error", code="X", text="x", remedy="y", files=[])
outcome = OperationResult(table="t", version=0, read_version=0, operation="HEALTH", committed=False,
                          details={"findings": [finding], "figures": {"files": 1}})
write_result(spec["result_uri"], ResultDocument(outcome=outcome))
sys.exit(0)
"""
    submit = recording_submit(outcome)
    arguments = {"engine": "spark", "conn_id": "spark_local", "spark_binary": str(submit.path), "list_files": False}
    run = run_task(lambda: health(empty_table, **arguments))
    assert [error.findings for error in run.errors] == [("X: x",)]
    (call,) = submit.calls
    assert call["spec"]["statement"] == {"$type": "health", "table": str(empty_table), "list_files": False}
    assert any(argument.endswith("/delta_health.py") for argument in call["argv"])


def test_arguments_become_a_statement():
    assert health("t", list_files=False).statement() == HealthStatement(table="t", list_files=False)
    with pytest.raises(InvalidStatementError):
        health("t", fail_on="hint").statement()
