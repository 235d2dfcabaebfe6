"""A job that another operator submits: it commits once for each run of that task, and its result comes back."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from airflow.sdk import BaseOperator
from airflow.sdk import task as task_decorator
from airflow.sdk.definitions.context import Context
from deltalake import DeltaTable, write_deltalake
from jinja2 import Environment
from jinja2.nativetypes import NativeEnvironment

from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import ConcurrentAppendError, InvalidStatementError, StorageUnavailableError
from airflow_delta.core.statements import (
    DeleteStatement,
    FileSource,
    MaintenanceStatement,
    MatchedUpdate,
    MergeStatement,
    SequenceStatement,
    SqlSource,
    TableSource,
    VacuumStatement,
)
from airflow_delta.core.statements.json_form import statement_from_json
from airflow_delta.hooks.errors import ExposedSecretError, JobNotSubmittedError
from airflow_delta.jobs.errors import JobFailedError, ResultMissingError
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.operators import DeltaJob, DeltaResultOperator
from airflow_delta.operators.result_location import ResultLocation
from airflow_delta.shipping.scripts import job_scripts
from airflow_delta.shipping.ship import ship


class SubmitOperator(BaseOperator):
    """A third-party operator without Delta support: it runs a program with application, archive and arguments."""

    template_fields = ("application", "py_files", "arguments")

    def __init__(self, *, program, application, py_files, arguments, **kwargs):
        super().__init__(**kwargs)
        self.program = program
        self.application = application
        self.py_files = py_files
        self.arguments = arguments

    def execute(self, context: Context):
        command = [*self.program, "--py-files", ",".join(self.py_files), self.application, *self.arguments]
        subprocess.run(command, check=True, env={**os.environ, "PYSPARK_PYTHON": sys.executable})


# A program in place of spark-submit that reads the spec as the job does.
FAKE = """
import os, sys, json
sys.path.insert(0, {root!r})
from pathlib import Path
from airflow_delta.core.statements import OperationResult
from airflow_delta.jobs.result import ResultDocument, write_result
from airflow_delta.jobs.spec import JobSpec
spec = JobSpec.from_text(sys.argv[sys.argv.index("--spec") + 1])
calls = Path({calls!r})
with calls.open("a") as out:
    out.write(json.dumps({{"token": spec.origin.token, "uri": spec.result_uri, "record": dict(spec.origin.record),
                           "job": dict(spec.origin.job), "on": getattr(spec.statement, "on", None),
                           "not_before": spec.earliest_commit_time,
                           "version": getattr(getattr(spec.statement, "source", None), "version_number", None)}}) + "\\n")
number = len(calls.read_text().splitlines())
outcome = OperationResult(table=spec.statement.table, version=number, read_version=0, operation="MERGE", committed=True)
{behavior}
write_result(spec.result_uri, ResultDocument(outcome=outcome))
"""

COMMIT = """
commit = {"commitInfo": {"timestamp": 1, "operation": "MERGE", "readVersion": 0, "operationMetrics": {"numOutputRows": "3"},
                         "airflowDelta": {"token": spec.origin.token, **spec.origin.record}}}
(Path(spec.statement.table) / "_delta_log" / f"{number:020d}.json").write_text(json.dumps(commit))
"""


@pytest.fixture
def submitter(tmp_path):
    """Make a fake submit; its calls are in ``calls()``."""
    calls = tmp_path / "calls.jsonl"

    def make(behavior=""):
        script = tmp_path / "fake.py"
        root = str(job_scripts()[0].parents[1])
        script.write_text(FAKE.format(root=root, calls=str(calls), behavior=behavior))
        return [sys.executable, str(script)]

    make.calls = lambda: [json.loads(line) for line in calls.read_text().splitlines()]
    return make


class Anything:
    """Stands for anything that a template of a spec needs from a run."""

    def __getattr__(self, name):
        return self

    def __call__(self, *_, **__):
        return 3

    def __mul__(self, _):
        return 5

    def __str__(self):
        return "3"


RUN = {name: Anything() for name in ("ti", "dag_run", "task")}


def job_on(table, tmp_path, **arguments):
    defaults = {"source": TableSource("/lake/feed", version="{{ 3 + 4 }}"), "on": "target.id = source.id"}
    statement = MergeStatement(table=str(table), **(defaults | arguments))
    return DeltaJob(statement=statement, scratch_uri=f"{tmp_path}/scratch", code_uri="/code")


def submit(program, job, **arguments):
    submission = job.to_submit()
    return SubmitOperator(
        task_id="submit",
        program=program,
        application=submission.application,
        py_files=list(submission.py_files),
        arguments=list(submission.arguments),
        pre_execute=getattr(submission, "pre_execute", None),
        **arguments,
    )


@pytest.fixture
def run_job(run_task):
    """Run the submitting task and the one of the result; the state and result are those of the latter."""

    def run(program, job, *, more=None, submitting=None, dag_id=None, **arguments):
        def make():
            first = submit(program, job, **(submitting or {}))
            result = DeltaResultOperator(task_id="result", job=job, retries=0, **arguments)
            first >> result
            if more:
                more(first, result)
            return result

        return run_task(make, dag_id=dag_id)

    return run


def test_the_submitted_job_knows_the_requesting_task_and_its_result_comes_back(empty_table, submitter, run_job, tmp_path):
    on = """target.day = DATE'{{ ds }}' AND target.name = '{{ "it" ~ '"' ~ "s" }}'"""
    run = run_job(submitter(), job_on(empty_table, tmp_path, on=on))
    (call,) = submitter.calls()
    assert (run.state, run.version, run.result["committed"]) == ("success", 1, True)
    assert (call["on"], call["version"]) == ("""target.day = DATE'2013-01-02' AND target.name = 'it"s'""", 7)
    record = call["record"]
    assert (record["task_id"], record["map_index"], record["generation"], record["try_number"]) == ("submit", -1, 0, 1)
    assert record["logical_date"].startswith("2013-01-02")
    assert call["job"]["jobName"].endswith(".submit")
    assert call["job"]["jobOwnerId"] == "airflow"
    assert call["uri"].startswith(f"{tmp_path}/scratch/_airflow_delta/results/")
    assert call["not_before"] > 1_300_000_000_000


def test_a_retry_has_the_same_token_and_the_newest_document_counts(empty_table, submitter, run_job, tmp_path):
    program = submitter("if number == 1: sys.exit(1)")
    run = run_job(program, job_on(empty_table, tmp_path), submitting={"retries": 1})
    first, second = submitter.calls()
    assert (run.state, run.version, first["token"] == second["token"]) == ("success", 2, True)


def test_a_cleared_pair_commits_again_and_never_takes_the_old_result(empty_table, submitter, run_job, tmp_path, clear_once):
    """The second job is lost without an error, and the operator that submits it does not notice."""
    program = submitter("if number == 2: sys.exit(0)")

    def clear_both(first, result):
        clear_once(result)
        clear_once(result, "submit")

    run = run_job(program, job_on(empty_table, tmp_path), more=clear_both)
    first, second = submitter.calls()
    assert first["token"] != second["token"]
    assert [type(error) for error in run.errors] == [ResultMissingError]


def test_a_lost_job_that_has_committed_is_found_in_the_log(empty_table, submitter, run_job, tmp_path):
    run = run_job(submitter(COMMIT + "sys.exit(0)"), job_on(empty_table, tmp_path))
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 1, True)
    assert run.result["metrics"] == {"numOutputRows": 3}


COMPACT = """
commit["commitInfo"]["operation"] = "OPTIMIZE"
del commit["commitInfo"]["airflowDelta"]["token"]
(Path(spec.statement.table) / "_delta_log" / f"{number + 1:020d}.json").write_text(json.dumps(commit))
"""
"""As auto compaction does: a commit of the same run, without its token."""


def test_a_lost_job_whose_commit_was_compacted_is_found_by_its_own_commit(empty_table, submitter, run_job, tmp_path):
    run = run_job(submitter(COMMIT + COMPACT + "sys.exit(0)"), job_on(empty_table, tmp_path))
    assert (run.state, run.version, run.result["operation"]) == ("success", 1, "MERGE")


@pytest.mark.parametrize("kind", [MaintenanceStatement, VacuumStatement])
def test_a_lost_job_of_which_a_commit_is_only_a_step_is_not_taken_for_done(empty_table, submitter, run_job, tmp_path, kind):
    job = DeltaJob(statement=kind(table=str(empty_table)), scratch_uri=f"{tmp_path}/scratch", code_uri="/code")
    run = run_job(submitter(COMMIT + "sys.exit(0)"), job)
    assert [type(error) for error in run.errors] == [ResultMissingError]


SEVERAL = """
each = {name: OperationResult(table=one.table, version=4 + position, read_version=3, operation=one.type_name, committed=True)
        for position, (name, one) in enumerate(zip(spec.statement.names, spec.statement.statements))}
outcome = OperationResult(table=spec.statement.table, version=5, read_version=3, operation="SEQUENCE", committed=True,
                          details={"statements": {name: one.to_json() for name, one in each.items()}})
"""


def sequence_on(table, tmp_path):
    merge = MergeStatement(table=str(table), source=TableSource("/lake/{{ ds }}"), on="target.id = source.id")
    delete = DeleteStatement(table=str(table), where="day = DATE'{{ ds }}'")
    statement = SequenceStatement(statements=(merge, delete), names=("merge", "delete"))
    return DeltaJob(statement=statement, scratch_uri=f"{tmp_path}/scratch", code_uri="/code")


def test_several_statements_are_one_job_and_the_version_of_each_comes_back(empty_table, submitter, run_job, tmp_path):
    pulled = []

    def more(_, result):
        @task_decorator
        def look(ti=None):
            pulled.extend(ti.xcom_pull("result", key=name) for name in ("merge", "delete"))

        result >> look()

    job = sequence_on(empty_table, tmp_path)
    run = run_job(submitter(SEVERAL), job, more=more)
    assert (run.state, run.version, pulled) == ("success", 5, [4, 5])
    assert job.to_submit().application.startswith("/code/delta_sequence")


def test_of_several_statements_a_lost_job_is_not_taken_for_done(empty_table, submitter, run_job, tmp_path):
    run = run_job(submitter(COMMIT + "sys.exit(0)"), sequence_on(empty_table, tmp_path))
    assert [type(error) for error in run.errors] == [ResultMissingError]


def test_a_typed_error_comes_back_as_itself(empty_table, submitter, run_job, tmp_path):
    failure = """
from airflow_delta.core.errors import ConcurrentAppendError
error = ConcurrentAppendError(table="t", read_version=1, winning_version=2, path="f.parquet")
write_result(spec.result_uri, ResultDocument.of_error(error))
sys.exit(0)
"""
    run = run_job(submitter(failure), job_on(empty_table, tmp_path))
    assert [type(error) for error in run.errors] == [ConcurrentAppendError]
    assert run.conflict["winning_version"] == 2


@pytest.mark.parametrize("left", ["error", "nothing"])
def test_where_workers_see_no_tables_the_error_is_that_of_the_job(empty_table, submitter, run_job, tmp_path, monkeypatch, left):
    """The log would show whether the job has committed, but the worker cannot read it."""
    monkeypatch.setenv("AIRFLOW_CONN_SCRATCH_ONLY", '{"conn_type": "delta", "extra": {"workers_see_tables": false}}')
    failure = """
from airflow_delta.jobs.errors import JobFailedError
error = JobFailedError(table="t", operation="MERGE", error="OutOfMemoryError", detail="no heap")
write_result(spec.result_uri, ResultDocument.of_error(error))
"""
    program = submitter((failure if left == "error" else "") + "sys.exit(0)")
    run = run_job(program, job_on(empty_table, tmp_path), delta_conn_id="scratch_only")
    assert [type(error) for error in run.errors] == [JobFailedError if left == "error" else ResultMissingError]


def test_a_job_that_was_only_submitted_is_waited_for_in_the_triggerer(empty_table, submitter, run_job, tmp_path):
    detached = (
        "sys.stdout.close(); os.close(1); os.close(2)\nif os.fork(): os._exit(0)\nimport time; os.setsid(); time.sleep(2)"
    )
    run = run_job(
        submitter(detached),
        job_on(empty_table, tmp_path),
        waits=True,
        deferrable=True,
        poll_interval=0.05,
        execution_timeout=timedelta(minutes=1),
    )
    assert (run.state, run.version) == ("success", 1)


def test_a_job_is_waited_for_in_the_worker_through_a_storage_that_is_away(
    empty_table, submitter, run_job, tmp_path, monkeypatch
):
    written, left = ResultLocation.written, iter([StorageUnavailableError(uri="t", detail="503"), TimeoutError("slow")])

    def failing(location):
        error = next(left, None)
        if error:
            raise error
        return written(location)

    monkeypatch.setattr(ResultLocation, "written", failing)
    detached = "sys.stdout.close(); os.close(1); os.close(2)\nif os.fork(): os._exit(0)\nos.setsid()"
    run = run_job(
        submitter(detached),
        job_on(empty_table, tmp_path),
        waits=True,
        poll_interval=0.05,
        execution_timeout=timedelta(minutes=1),
    )
    assert (run.errors, run.state, run.version, next(left, None)) == ([], "success", 1, None)


def test_a_storage_that_refuses_is_not_waited_for_in_the_worker(empty_table, submitter, run_job, tmp_path, monkeypatch):
    def refusing(location):
        raise PermissionError(location.base)

    monkeypatch.setattr(ResultLocation, "written", refusing)
    limit = timedelta(minutes=1)
    run = run_job(submitter(), job_on(empty_table, tmp_path), waits=True, poll_interval=0.05, execution_timeout=limit)
    assert [type(error) for error in run.errors] == [PermissionError]


def test_rendering_the_arguments_of_a_job_pushes_no_xcom(tmp_path):
    class TaskInstance:
        dag_id, task_id, run_id, map_index, max_tries, try_number, id = "d", "t", "r", -1, 3, 1, "i"

        def xcom_push(self, **_):
            raise AssertionError("rendered templates are shown, too")

    class DagRun:
        run_after, logical_date = datetime(2013, 1, 2, tzinfo=UTC), None
        run_type = SimpleNamespace(value="manual")

    _, template = job_on("/lake/t", tmp_path).to_submit().arguments
    text = (
        Environment(autoescape=False)
        .from_string(template)
        .render(ti=TaskInstance(), dag_run=DagRun(), task=SimpleNamespace(owner="o"))
    )
    assert JobSpec.from_text(text).origin.record["generation"] == 3


def test_a_task_that_is_to_push_no_xcom_leaves_none_of_its_job(empty_table, submitter, run_job, tmp_path):
    run = run_job(submitter(), job_on(empty_table, tmp_path), submitting={"do_xcom_push": False})
    assert [type(error) for error in run.errors] == [JobNotSubmittedError]


def test_a_result_without_a_submit_fails_with_a_typed_error(empty_table, run_task, tmp_path):
    run = run_task(lambda: DeltaResultOperator(task_id="result", job=job_on(empty_table, tmp_path)))
    assert [type(error) for error in run.errors] == [JobNotSubmittedError]


def test_waiting_without_a_time_limit_is_refused(empty_table, tmp_path):
    with pytest.raises(InvalidStatementError, match="execution_timeout"):
        DeltaResultOperator(task_id="result", job=job_on(empty_table, tmp_path), waits=True)


def test_a_statement_that_does_not_fit_into_an_argument_is_refused_with_the_limit(tmp_path):
    query = "SELECT * FROM feed WHERE id IN (" + ",".join(map(str, range(30_000))) + ")"
    with pytest.raises(InvalidStatementError, match="102,400"):
        job_on("/lake/t", tmp_path, source=SqlSource(query, views={"feed": TableSource("/lake/feed")})).to_submit()


def test_a_secret_in_the_statement_is_refused_before_anything_shows_it(tmp_path):
    query = "SELECT * FROM parquet.`https://lake.example/feed?sig=hidden`"
    with pytest.raises(ExposedSecretError) as refused:
        job_on("/lake/t", tmp_path, source=SqlSource(query)).to_submit()
    assert "MergeStatement.source.query" in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_native_rendering_gives_the_same_spec(tmp_path):
    """With ``render_template_as_native_obj`` an argument must not become a Python value."""
    quoted = MatchedUpdate(condition="'{{ 'b' }}'", assignments={"day": "'{{ 1 }}'", "state": "'closed'"})
    _, template = job_on("/lake/{{ 'a' }}", tmp_path, clauses=[quoted]).to_submit().arguments
    text = NativeEnvironment().from_string(template).render(RUN)
    spec = JobSpec.from_text(text)
    assert (spec.statement.table, spec.statement.source.version_number) == ("/lake/a", 7)
    assert spec.statement.clauses == (MatchedUpdate(condition="'b'", assignments={"day": "'1'", "state": "'closed'"}),)
    assert statement_from_json(json.loads(text)["statement"]) == spec.statement


@pytest.mark.parametrize("name", ["{{ ds }}", "{# note #}", "{% raw %}", "a}}b", "{{{"])
def test_names_that_look_like_templates_stay_as_they_are_as_in_operators(tmp_path, name):
    options = {"plain": "{{ 'rendered' }}", name: "1"}
    source = FileSource("/lake/feed", format="csv", options=options)
    _, template = job_on("/lake/t", tmp_path, source=source).to_submit().arguments
    spec = json.loads(Environment().from_string(template).render(RUN))
    assert spec["statement"]["source"]["options"] == {"plain": "rendered", name: "1"}


@pytest.mark.slow  # its Spark jobs take half a minute and more
@pytest.mark.parametrize("count", [1, 2])
def test_a_submitted_job_commits_once_although_it_is_submitted_twice(run_task, tmp_path, count):
    """Real Spark, with the code from where it was shipped; the second submit is a retry of a task whose result was lost."""
    table, feed = f"{tmp_path}/table", f"{tmp_path}/feed"
    write_deltalake(table, pa.table({"id": [1, 2], "name": ["a", "b"]}))
    write_deltalake(feed, pa.table({"id": [2, 3], "name": ["B", "C"]}))
    ship(f"{tmp_path}/code")
    merge = MergeStatement(table=table, source=TableSource(feed), on="target.id = source.id")
    several = SequenceStatement(statements=(merge, DeleteStatement(table=table, where="id = 1")))
    statement = merge if count == 1 else several
    job = DeltaJob(statement=statement, scratch_uri=f"{tmp_path}/scratch", code_uri=f"{tmp_path}/code")
    program = [f"{sys.prefix}/bin/spark-submit", "--master", "local[2]"]

    class LosesItsFirstTry(SubmitOperator):
        def execute(self, context):
            super().execute(context)
            if context["ti"].try_number == 1:
                raise RuntimeError("lost")

    def make():
        submission = job.to_submit()
        first = LosesItsFirstTry(
            task_id="submit",
            program=program,
            application=submission.application,
            py_files=list(submission.py_files),
            arguments=list(submission.arguments),
            pre_execute=submission.pre_execute,
            retries=1,
        )
        result = DeltaResultOperator(task_id="result", job=job)
        first >> result
        return result

    run = run_task(make)
    assert (run.state, run.version) == ("success", count)
    assert sorted(DeltaTable(table).to_pyarrow_table()["name"].to_pylist()) == ["B", "C", "a"][: 4 - count]
    history = DeltaLog.for_table(table).history()
    assert len(history) == 1 + count
    assert history[0].commit_info.origin.record["task_id"] == "submit"
