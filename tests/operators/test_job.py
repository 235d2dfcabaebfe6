"""The life of a statement as a task: what is submitted, what comes back, and what is never submitted twice."""

import sys
import time
from pathlib import Path
from textwrap import indent

import pytest

from airflow_delta.core.errors import ConcurrentAppendError, SchemaMismatchError, TableNotFoundError
from airflow_delta.core.statements import OperationResult
from airflow_delta.hooks.airflow_features import HAS_STATE_STORES
from airflow_delta.hooks.errors import DriverLostError, ScratchUriNeededError, SparkTargetError
from airflow_delta.jobs.errors import JobFailedError, ResultMissingError
from airflow_delta.jobs.result import ResultDocument, newest_document, result_uri, write_result
from airflow_delta.operators import (
    UPSERT,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaSqlOperator,
    DeltaWriteOperator,
    FileSource,
    MatchedDelete,
    TableSource,
)

FAIL_WITH = """
from airflow_delta.core import errors
from airflow_delta.jobs import errors as job_errors
from airflow_delta.jobs.result import ResultDocument, write_result
write_result(spec["result_uri"], ResultDocument.of_error({error}))
sys.exit(75)
"""

COMMIT = """
import time
commit = {"commitInfo": {"timestamp": 1, "operation": "MERGE", "readVersion": 0, "operationMetrics": {"numOutputRows": "3"},
                         "airflowDelta": {"token": spec["origin"]["token"]}}}
def write_commit():
    path = Path(spec["statement"]["table"]) / "_delta_log" / f"{1:020d}.json"
    path.write_text(json.dumps(commit))
"""


def merge(table, submit, **arguments):
    defaults = {
        "source": "/lake/feed",
        "on": "target.id = source.id",
        "conn_id": "spark_local",
        "spark_binary": str(submit.path),
    }
    return DeltaMergeOperator(task_id="merge", table=str(table), **(defaults | arguments))


def argument(call, name):
    return call["argv"][call["argv"].index(name) + 1]


def test_the_job_gets_archive_spec_and_rendered_statement_and_its_outcome_comes_back(empty_table, recording_submit, run_task):
    submit = recording_submit()
    run = run_task(
        lambda: merge(
            "{{ dag_run.conf['table'] }}",
            submit,
            source=TableSource("/lake/{{ ds }}", version="{{ 3 + 4 }}"),
            on="target.day = DATE'{{ ds }}'",
            clauses=[MatchedDelete(condition="source.day < '{{ ds }}'"), *UPSERT],
            expect="day = '{{ ds }}'",
            py_files="/mine.py",
        ),
        run_conf={"table": str(empty_table)},
    )
    assert (run.state, run.version, run.errors) == ("success", 1, [])
    assert run.result == {
        "table": str(empty_table),
        "version": 1,
        "read_version": 0,
        "operation": "MERGE",
        "committed": True,
        "already_committed": False,
        "metrics": {"rows": 1},
        "conflicts": [],
        "attempts": 1,
        "sources": [],
        "details": {},
        "dry_run": False,
        "warnings": [],
    }
    (call,) = submit.calls
    statement, origin = call["spec"]["statement"], call["spec"]["origin"]
    assert statement["source"] == {
        "$type": "table",
        "table": "/lake/2013-01-02",
        "version": 7,
        "timestamp": None,
        "staged": None,
    }
    assert statement["on"] == "target.day = DATE'2013-01-02'"
    assert [clause.get("condition") for clause in statement["clauses"]] == ["source.day < '2013-01-02'", None, None]
    assert statement["expect"][0]["sql"] == "day = '2013-01-02'"
    assert call["spec"]["start_version"] == 0
    assert call["spec"]["result_uri"] == f"{empty_table}/_airflow_delta/results/{origin['token']}/1.json"
    assert origin["job"]["jobName"].endswith(".merge")
    assert origin["record"]["logical_date"].startswith("2013-01-02")
    archive, mine = argument(call, "--py-files").split(",")
    assert (mine, call["shipped"][0], Path(archive).exists()) == ("/mine.py", True, False)
    assert argument(call, "--name") == origin["job"]["jobName"]
    assert argument(call, "--master") == "local[2]"
    assert call["python"] == sys.executable
    assert any(argument.endswith("/spark_jobs/delta_merge.py") for argument in call["argv"])


def test_a_typed_error_fails_the_task_at_once_when_it_would_only_come_again(empty_table, recording_submit, run_task):
    submit = recording_submit(FAIL_WITH.format(error="errors.SchemaMismatchError(table='t', differences=('id is missing',))"))
    run = run_task(lambda: merge(empty_table, submit), retries=2)
    assert run.state == "failed"
    (error,) = run.errors
    assert isinstance(error, SchemaMismatchError)
    assert error.differences == ("id is missing",)
    assert "Remedy:" in str(error)
    assert len(submit.calls) == 1


def test_a_conflict_is_reported_in_an_xcom_and_tried_again_with_the_same_token(empty_table, recording_submit, run_task):
    conflict = "errors.ConcurrentAppendError(table='t', read_version=1, winning_version=2, path='f.parquet')"
    submit = recording_submit(FAIL_WITH.format(error=conflict))
    run = run_task(lambda: merge(empty_table, submit), retries=1)
    assert run.state == "failed"
    assert [type(error) for error in run.errors] == [ConcurrentAppendError] * 2
    assert run.conflict["code"] == "DELTA_CONCURRENT_APPEND"
    assert run.conflict["winning_version"] == 2
    first, second = submit.calls
    assert first["spec"]["origin"]["token"] == second["spec"]["origin"]["token"]
    assert second["spec"]["result_uri"].endswith("/2.json")


def test_a_job_that_dies_after_its_commit_has_committed(empty_table, recording_submit, run_task):
    submit = recording_submit(COMMIT + "write_commit()\nsys.exit(137)")
    run = run_task(lambda: merge(empty_table, submit), retries=1)
    assert (run.state, run.version, run.errors) == ("success", 1, [])
    assert (run.result["committed"], run.result["already_committed"]) == (True, True)
    assert run.result["metrics"] == {"numOutputRows": 3}


ORPHAN = """
sys.stdout.close(), os.close(1), os.close(2)
if os.fork() == 0:
    os.setsid()
    while not Path({retried!r}).exists():
        time.sleep(0.01)
    write_commit()
    os._exit(0)
sys.exit(1)
"""


def test_a_retry_returns_the_commit_of_an_orphan_and_submits_nothing(empty_table, recording_submit, run_task, tmp_path):
    submit = recording_submit(COMMIT + ORPHAN.format(retried=str(tmp_path / "retried")))

    def await_orphan(context):
        if context["ti"].try_number == 2:
            (tmp_path / "retried").touch()
            end = time.monotonic() + 60
            while not (empty_table / "_delta_log" / f"{1:020d}.json").exists() and time.monotonic() < end:
                time.sleep(0.01)

    run = run_task(lambda: merge(empty_table, submit, pre_execute=await_orphan), retries=1)
    assert (run.state, run.version, len(run.errors)) == ("success", 1, 1)
    assert len(submit.calls) == 1


STOPPED = """
import signal
if number == 1:
    sys.stdout.close(), os.close(1), os.close(2)
    orphan = os.fork()
    if orphan == 0:
        os.setsid()
        os.kill(os.getpid(), signal.SIGSTOP)
        write_commit()
        os._exit(0)
    Path({orphan!r}).write_text(str(orphan))
    os.waitpid(orphan, os.WUNTRACED)
    sys.exit(1)
"""


@pytest.mark.slow
def test_a_retry_ends_an_orphan_that_does_not_end_by_itself_and_does_its_work_once(
    empty_table, recording_submit, run_task, tmp_path
):
    submit = recording_submit(COMMIT + STOPPED.format(orphan=str(tmp_path / "orphan")))
    run = run_task(lambda: merge(empty_table, submit), retries=1)
    orphan = int((tmp_path / "orphan").read_text())
    assert (run.state, run.version, len(run.errors), len(submit.calls)) == ("success", 2, 1, 2)
    assert not (empty_table / "_delta_log" / f"{1:020d}.json").exists()
    assert not Path(f"/proc/{orphan}").exists() or "Z" in Path(f"/proc/{orphan}/stat").read_text()


@pytest.mark.parametrize(
    ("end", "ending"),
    [("sys.exit(3)", "exit code 3"), ("os.kill(os.getpid(), 9)", "it was killed by SIGKILL")],
    ids=["exits", "killed"],
)
def test_a_driver_that_ends_without_a_word_is_lost_and_what_upstream_raised_is_the_cause(
    empty_table, recording_submit, run_task, end, ending
):
    run = run_task(lambda: merge(empty_table, recording_submit(end)))
    (error,) = run.errors
    assert isinstance(error, DriverLostError)
    assert (error.table, error.detail) == (str(empty_table), f"spark-submit failed ({ending})")
    assert "Error code is: " in str(error.__cause__)


def test_a_job_that_ends_well_without_a_result_says_where_it_should_be(empty_table, recording_submit, run_task):
    submit = recording_submit("sys.exit(0)")
    run = run_task(lambda: merge(empty_table, submit))
    (error,) = run.errors
    assert isinstance(error, ResultMissingError)
    assert error.result_uri == submit.calls[0]["spec"]["result_uri"]


def test_an_unforeseen_failure_is_tried_again(empty_table, recording_submit, run_task):
    failure = "job_errors.JobFailedError(table='t', operation='MERGE', error='KeyError', detail='x')"
    submit = recording_submit("if number == 1:\n" + indent(FAIL_WITH.format(error=failure).strip(), "    "))
    run = run_task(lambda: merge(empty_table, submit), retries=1)
    assert (run.state, run.version) == ("success", 2)
    assert isinstance(run.errors[0], JobFailedError)


def test_a_missing_connection_ends_the_task_before_anything_happens(empty_table, recording_submit, run_task):
    submit = recording_submit()
    run = run_task(lambda: merge(empty_table, submit, conn_id="spark_nowhere"), retries=1)
    (error,) = run.errors
    assert isinstance(error, SparkTargetError)
    assert submit.calls == []


@pytest.mark.parametrize("operator", [DeltaMergeOperator, DeltaOptimizeOperator])
def test_a_path_that_is_no_table_is_an_error_at_once_and_stays_empty(tmp_path, recording_submit, run_task, operator):
    submit = recording_submit()
    arguments = {"source": "/feed", "on": "a = b"} if operator is DeltaMergeOperator else {}
    run = run_task(
        lambda: operator(
            task_id="t", table=str(tmp_path / "none"), conn_id="spark_local", spark_binary=str(submit.path), **arguments
        )
    )
    (error,) = run.errors
    assert isinstance(error, TableNotFoundError)
    assert (submit.calls, list(tmp_path.iterdir())) == ([], [])


def test_the_first_write_leaves_its_result_in_a_private_place(tmp_path, recording_submit, run_task):
    submit = recording_submit()
    table = tmp_path / "new"
    run = run_task(
        lambda: DeltaWriteOperator(
            task_id="write",
            table=str(table),
            source=FileSource("/feed.csv", format="csv", options={"header": "true"}),
            conn_id="spark_local",
            spark_binary=str(submit.path),
        )
    )
    assert (run.state, run.version) == ("success", 1)
    (call,) = submit.calls
    assert call["spec"]["start_version"] == -1
    assert not call["spec"]["result_uri"].startswith(str(tmp_path))
    assert not Path(call["spec"]["result_uri"]).exists()
    assert not table.exists()


def test_in_cluster_mode_the_first_write_requires_a_scratch_uri(tmp_path, recording_submit, run_task, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_YARN", '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}')
    submit = recording_submit()

    def write(**arguments):
        return DeltaSqlOperator(
            task_id="write",
            table=str(tmp_path / "new"),
            query="SELECT * FROM feed WHERE day = '{{ ds }}'",
            views={"feed": "/lake/feed"},
            conn_id="spark_yarn",
            spark_binary=str(submit.path),
            **arguments,
        )

    run = run_task(write)
    assert isinstance(run.errors[0], ScratchUriNeededError)
    assert (submit.calls, list(tmp_path.iterdir())) == ([], [])
    run = run_task(lambda: write(scratch_uri=str(tmp_path / "scratch")), dag_id="with_scratch")
    assert (run.state, run.version) == ("success", 1)
    (call,) = submit.calls
    assert call["spec"]["statement"]["source"]["query"] == "SELECT * FROM feed WHERE day = '2013-01-02'"
    assert call["spec"]["statement"]["source"]["views"]["feed"]["table"] == "/lake/feed"
    assert call["python"] is None or call["python"] == sys.executable


def test_a_cleared_task_runs_again_with_a_new_token_unless_configured_otherwise(
    empty_table, recording_submit, run_task, clear_once
):
    submit = recording_submit(COMMIT + "number == 1 and write_commit()")
    run = run_task(lambda: merge(empty_table, submit), more=clear_once)
    first, second = submit.calls
    assert first["spec"]["origin"]["token"] != second["spec"]["origin"]["token"]
    assert (run.state, run.version) == ("success", 2)
    # A derived token is searched from the run's begin, which `dag.test()` of older Airflows takes for the logical date.
    assert second["spec"]["start_version"] == (1 if HAS_STATE_STORES else -1)


def test_a_cleared_task_that_reuses_returns_its_commit(empty_table, recording_submit, run_task, clear_once):
    submit = recording_submit(COMMIT + "write_commit()")
    run = run_task(lambda: merge(empty_table, submit, on_clear="reuse"), more=clear_once)
    assert len(submit.calls) == 1
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 1, True)


def test_a_durable_job_on_yarn_returns_its_result_and_a_cleared_task_is_not_called_done(
    empty_table, recording_submit, run_task, clear_once, resource_manager
):
    submit = recording_submit("print('Submitted application application_1_0001', flush=True)")
    run = run_task(lambda: merge(empty_table, submit, conn_id="spark_yarn"), more=clear_once)
    first, second = submit.calls
    assert "spark.yarn.submit.waitAppCompletion=false" in first["argv"]
    assert first["spec"]["origin"]["token"] != second["spec"]["origin"]["token"]
    assert (run.state, run.version) == ("success", 2)


def test_a_try_that_follows_an_earlier_job_takes_its_outcome_but_not_an_old_error(tmp_path):
    token, base = "0" * 32, str(tmp_path)

    def leave(attempt, document):
        write_result(result_uri(base, token, attempt), document)

    outcome = ResultDocument(outcome=OperationResult(table="t", version=1, read_version=0, operation="MERGE", committed=True))
    error = ResultDocument.of_error(TableNotFoundError(table="t"))
    assert newest_document(base, token, set(), is_done=True) is None
    leave(1, error)
    assert newest_document(base, token, {1}, is_done=True) is None
    assert newest_document(base, token, set(), is_done=False) == error
    leave(2, outcome)
    leave(3, error)
    assert newest_document(base, token, {1, 2}, is_done=False) == error
    assert newest_document(base, token, {1, 2, 3}, is_done=True) == outcome


@pytest.mark.parametrize("is_done", [True, False])
def test_an_earlier_outcome_without_a_commit_does_not_stand_for_a_lost_job(tmp_path, is_done):
    token, base = "0" * 32, str(tmp_path)
    nothing = ResultDocument(outcome=OperationResult(table="t", version=1, read_version=1, operation="MERGE", committed=False))
    write_result(result_uri(base, token, 1), nothing)
    assert newest_document(base, token, {1}, is_done=is_done) == (nothing if is_done else None)
