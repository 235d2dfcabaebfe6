"""A task on a cluster frees its worker: the triggerer waits for the document, and its outcome is what the worker reports."""

import asyncio
import json
import threading
import time
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import ClassVar

import pytest
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_delta.catalogs.entry import TableDescription
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core import DeltaLog
from airflow_delta.core.errors import ConcurrentAppendError, StorageAccessError
from airflow_delta.core.statements import OperationResult
from airflow_delta.hooks.airflow_features import HAS_TRIGGER_KILLS
from airflow_delta.hooks.errors import DriverLostError, SparkTargetError
from airflow_delta.jobs.result import ResultDocument, result_uri, write_result, written_results
from airflow_delta.operators import DeltaMergeOperator, DeltaSqlOperator
from airflow_delta.triggers.result import DeltaResultTrigger
from tests.airflow_versions import AIRFLOW

TOKEN = "0" * 32

DETACHED = """
import time
print("Submitted application application_1_0001", flush=True)
sys.stdout.close(); os.close(1); os.close(2)
if os.fork():
    os._exit(0)
os.setsid()
time.sleep({delay})
"""

COMMIT = """
commit = {"commitInfo": {"timestamp": 1, "operation": "MERGE", "readVersion": 0, "operationMetrics": {"numOutputRows": "3"},
                         "airflowDelta": {"token": spec["origin"]["token"]}}}
(Path(spec["statement"]["table"]) / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(commit))
"""

CONFLICT = """
from airflow_delta.core.errors import ConcurrentAppendError
from airflow_delta.jobs.result import ResultDocument, write_result
error = ConcurrentAppendError(table="t", read_version=1, winning_version=2, path="f.parquet")
write_result(spec["result_uri"], ResultDocument.of_error(error))
os._exit(75)
"""


class Watched(DeltaMergeOperator):
    """Records what the triggerer saw."""

    events: ClassVar = []

    def execute_complete(self, context, event):
        if event["try_number"] == context["ti"].try_number:
            self.events.append(event["state"])
        return super().execute_complete(context, event)


class GivesUp(Watched):
    """Runs out of time once the worker is freed, if ``given_up()`` is true then; the worker's own part is not limited."""

    def __init__(self, *, given_up=lambda: True, **arguments):
        super().__init__(**arguments)
        self.given_up = given_up

    def _wait_in_triggerer(self, *arguments):
        limit = self.execution_timeout
        self.execution_timeout = timedelta(seconds=0.1) if self.given_up() else limit
        try:
            super()._wait_in_triggerer(*arguments)
        finally:
            self.execution_timeout = limit


@pytest.fixture(autouse=True)
def events():
    Watched.events = []
    return Watched.events


@pytest.fixture
def plain_yarn(monkeypatch):
    """A YARN whose resource manager is not known."""
    extra = {"deploy-mode": "cluster"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_YARN", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))


def merge(table, submit, operator=Watched, **arguments):
    defaults = {"conn_id": "spark_yarn", "deferrable": True, "poll_interval": 0.05}
    return operator(
        task_id="merge",
        table=str(table),
        source="/lake/feed",
        on="target.id = source.id",
        spark_binary=str(submit.path),
        **(defaults | arguments),
    )


def test_the_worker_is_freed_and_the_result_is_what_the_driver_left(
    empty_table, recording_submit, run_task, resource_manager, events
):
    resource_manager.state, resource_manager.final_status = "RUNNING", "UNDEFINED"
    submit = recording_submit(DETACHED.format(delay=0.5))
    run = run_task(lambda: merge(empty_table, submit))
    (call,) = submit.calls
    assert "spark.yarn.submit.waitAppCompletion=false" in call["argv"]
    assert (run.state, run.version, run.result["metrics"], events) == ("success", 1, {"rows": 1}, ["document"])


def test_a_conflict_is_reported_as_by_a_waiting_task(empty_table, recording_submit, run_task, resource_manager, events):
    resource_manager.state, resource_manager.final_status = "RUNNING", "UNDEFINED"
    run = run_task(lambda: merge(empty_table, recording_submit(DETACHED.format(delay=0.2) + CONFLICT)))
    (error,) = run.errors
    assert isinstance(error, ConcurrentAppendError)
    assert (run.conflict["winning_version"], events) == (2, ["document"])


def test_a_driver_that_died_without_a_word_is_noticed(empty_table, recording_submit, run_task, resource_manager, events):
    resource_manager.state, resource_manager.final_status = "FINISHED", "FAILED"
    run = run_task(lambda: merge(empty_table, recording_submit(DETACHED.format(delay=0) + "os._exit(1)")))
    (error,) = run.errors
    assert isinstance(error, DriverLostError)
    assert ("driver failed" in str(error), events) == (True, ["failed"])


def test_a_driver_that_died_after_its_commit_has_committed(empty_table, recording_submit, run_task, resource_manager, events):
    resource_manager.state, resource_manager.final_status = "FINISHED", "FAILED"
    submit = recording_submit(COMMIT + DETACHED.format(delay=0) + "os._exit(1)")
    run = run_task(lambda: merge(empty_table, submit), retries=1)
    assert (run.state, run.version, run.result["already_committed"], len(submit.calls)) == ("success", 1, True, 1)
    assert events == ["failed"]


def test_when_the_time_is_over_the_driver_is_ended(empty_table, recording_submit, run_task, resource_manager, events):
    resource_manager.state, resource_manager.final_status = "RUNNING", "UNDEFINED"
    submit = recording_submit(DETACHED.format(delay=0) + "os._exit(1)")
    run = run_task(lambda: merge(empty_table, submit, GivesUp, execution_timeout=timedelta(minutes=2)))
    (error,) = run.errors
    assert isinstance(error, DriverLostError)
    assert (events, resource_manager.killed) == (["late"], ["application_1_0001"])


def test_where_a_dead_driver_would_go_unnoticed_a_time_limit_is_required(empty_table, recording_submit, run_task, plain_yarn):
    submit = recording_submit()
    run = run_task(lambda: merge(empty_table, submit))
    (error,) = run.errors
    assert isinstance(error, SparkTargetError)
    assert ("execution_timeout" in str(error), submit.calls) == (True, [])


def test_without_a_resource_manager_the_document_alone_is_waited_for(
    empty_table, recording_submit, run_task, plain_yarn, events
):
    submit = recording_submit(DETACHED.format(delay=0.3))
    run = run_task(lambda: merge(empty_table, submit, execution_timeout=timedelta(minutes=1)))
    assert (run.state, run.version, events) == ("success", 1, ["document"])


def test_a_retry_beside_the_first_driver_returns_the_one_commit(empty_table, recording_submit, run_task, plain_yarn, events):
    """The first driver is given up, and commits while the second one is starting."""
    second = """
while not (Path(spec["statement"]["table"]) / "_delta_log" / f"{1:020d}.json").exists():
    time.sleep(0.05)
from airflow_delta.core.committed import committed_result
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.jobs.result import ResultDocument, write_result
found = committed_result(DeltaLog.for_table(spec["statement"]["table"]), spec["origin"]["token"], spec["start_version"])
write_result(spec["result_uri"], ResultDocument(outcome=found))
os._exit(0)
"""
    first = "while len(calls.read_text().splitlines()) < 2:\n    time.sleep(0.05)\n"
    submit = recording_submit(f"{DETACHED.format(delay=0)}if number == 2:\n    exec({second!r})\n{first}{COMMIT}os._exit(1)")
    run = run_task(
        lambda: merge(
            empty_table, submit, GivesUp, execution_timeout=timedelta(minutes=2), given_up=lambda: len(submit.calls) == 1
        ),
        retries=1,
    )
    tokens = {call["spec"]["origin"]["token"] for call in submit.calls}
    assert (run.state, run.version, run.result["already_committed"]) == ("success", 1, True)
    assert (events, len(submit.calls), len(tokens)) == (["late", "document"], 2, 1)


def test_a_try_that_is_resumed_with_the_event_of_the_one_before_begins_anew(
    empty_table, recording_submit, run_task, resource_manager, events
):
    """Airflow 3.0 does so with a retry of a task that was deferred."""
    resource_manager.state, resource_manager.final_status = "FINISHED", "FAILED"
    submit = recording_submit(f"{DETACHED.format(delay=0)}if number == 1:\n    os._exit(1)\n")
    of_the_one_before = []

    class Resumed(Watched):
        def execute_complete(self, context, event):
            if not of_the_one_before:
                of_the_one_before.append(event["state"])
                event |= {"try_number": 0}
            return super().execute_complete(context, event)

        def _wait_in_triggerer(self, *arguments):
            if of_the_one_before:
                resource_manager.state, resource_manager.final_status = "RUNNING", "UNDEFINED"
            super()._wait_in_triggerer(*arguments)

    run = run_task(lambda: merge(empty_table, submit, Resumed))
    assert (run.errors, run.state, len(submit.calls)) == ([], "success", 2)
    assert (of_the_one_before, events) == (["failed"], ["document"])


@pytest.mark.skipif(AIRFLOW < (3, 3), reason="before 3.3 a retry submits again, and only one of both commits")
def test_a_retry_follows_the_driver_that_is_still_at_work(empty_table, recording_submit, run_task, resource_manager, events):
    resource_manager.state, resource_manager.final_status = "RUNNING", "UNDEFINED"
    submit = recording_submit(DETACHED.format(delay=3))

    class Forgetful(Watched):
        def _wait_in_triggerer(self, *arguments):
            if not events:
                events.append("the worker is lost")
                raise RuntimeError("the worker is lost")
            super()._wait_in_triggerer(*arguments)

    run = run_task(lambda: merge(empty_table, submit, Forgetful), retries=1)
    assert (run.state, run.version, len(submit.calls)) == ("success", 1, 1)
    assert events == ["the worker is lost", "document"]


def test_a_name_that_is_dropped_while_the_triggerer_waits_does_not_undo_the_commit(
    unity, empty_table, recording_submit, run_task, resource_manager
):
    orders, here = TableName("orders", "sales"), DeltaLog.for_table(str(empty_table)).snapshot()
    unity.client.create(orders, TableDescription.of(here))

    class Dropped(Watched):
        def execute_complete(self, context, event):
            assert unity.client.drop(orders)
            return super().execute_complete(context, event)

    resource_manager.state, resource_manager.final_status = "FINISHED", "SUCCEEDED"
    submit = recording_submit(COMMIT + DETACHED.format(delay=0) + "os._exit(1)")
    run = run_task(lambda: merge("sales.orders", submit, Dropped, delta_conn_id="lake"))
    assert (run.errors, run.state, run.version, len(submit.calls)) == ([], "success", 1, 1)
    assert run.result["table"] == str(empty_table)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        {"table": "sales.report", "query": "SELECT id FROM sales.orders o JOIN sales.orders VERSION AS OF 0"},
        {"sql": "INSERT INTO sales.report SELECT id FROM sales.orders"},
        {"sql": "MERGE INTO sales.report r USING sales.orders o ON r.id = o.id WHEN MATCHED THEN DELETE"},
    ],
    ids=["query", "insert", "merge"],
)
def test_a_query_by_names_is_waited_for_and_behind_its_commit_the_catalog_is_not_asked(
    unity, empty_table, tmp_path, recording_submit, run_task, resource_manager, arguments
):
    here = TableDescription.of(DeltaLog.for_table(str(empty_table)).snapshot())
    unity.client.create(TableName("report", "sales"), here)
    unity.client.create(TableName("orders", "sales"), replace(here, location=str(tmp_path / "orders"), table_id="b"))

    class OutOfOrder(DeltaSqlOperator):
        def execute_complete(self, context, event):
            unity.failing = 1_000
            return super().execute_complete(context, event)

    resource_manager.state, resource_manager.final_status = "FINISHED", "SUCCEEDED"
    submit = recording_submit(COMMIT + DETACHED.format(delay=0) + "os._exit(1)")
    given = {"conn_id": "spark_yarn", "deferrable": True, "poll_interval": 0.05, "spark_binary": str(submit.path)}
    run = run_task(lambda: OutOfOrder(task_id="sql", delta_conn_id="lake", **given, **arguments))
    assert (run.errors, run.state, run.version, len(submit.calls)) == ([], "success", 1, 1)
    assert run.result["table"] == str(empty_table)
    assert str(tmp_path / "orders") in json.dumps(submit.calls[0]["spec"]["statement"]["source"])


def test_beside_the_worker_a_deferrable_task_waits(empty_table, recording_submit, run_task, events):
    run = run_task(lambda: merge(empty_table, recording_submit(), conn_id="spark_local"))
    assert (run.state, run.version, events) == ("success", 1, [])


def trigger(base, **arguments):
    defaults = {"start_version": 0, "before": [1], "job_id": None, "until": None, "poll_interval": 0.05}
    return DeltaResultTrigger(
        delta_conn_id="delta_default", base=str(base), token=TOKEN, spark_conn_id="spark_yarn", **(defaults | arguments)
    )


async def event_of(waiting, **happens):
    """The trigger's event, while something else happens."""

    async def meanwhile():
        await asyncio.sleep(0.3)
        happens.get("then", lambda: None)()

    async def first():
        async for event in waiting.run():
            return event.payload["state"]
        return None

    return (await asyncio.gather(asyncio.wait_for(first(), 120), meanwhile()))[0]


def leave(base, attempt):
    outcome = OperationResult(table="t", version=1, read_version=0, operation="MERGE", committed=True)
    write_result(result_uri(str(base), TOKEN, attempt), ResultDocument(outcome=outcome))


def test_a_trigger_is_built_again_from_json_without_a_secret(airflow_database, tmp_path):
    path, arguments = trigger(
        tmp_path, job_id="application_1_0001", until=7.5, tables={"sales.orders": "/lake/orders"}
    ).serialize()
    module, name = path.rsplit(".", 1)
    assert (module, name) == (DeltaResultTrigger.__module__, "DeltaResultTrigger")
    assert DeltaResultTrigger(**json.loads(json.dumps(arguments))).serialize() == (path, arguments)


def test_a_trigger_waits_for_a_new_document_and_for_a_storage_that_does_not_answer(airflow_database, tmp_path):
    leave(tmp_path, 1)
    results = tmp_path / "_airflow_delta" / "results"
    away = results.rename(tmp_path / "away")
    results.write_text("not a directory for the moment")

    def restore_results():
        results.unlink()
        away.rename(results)
        leave(tmp_path, 2)

    assert asyncio.run(event_of(trigger(tmp_path), then=restore_results)) == "document"


def test_a_trigger_polls_a_silent_cluster_for_a_while_only(airflow_database, tmp_path, resource_manager, monkeypatch):
    resource_manager.state = ""
    monkeypatch.setattr("airflow_delta.triggers.result.UNANSWERED_LIMIT", 0.2)
    assert asyncio.run(event_of(trigger(tmp_path, job_id="application_1_0001"))) == "unknown"


def test_a_trigger_that_cannot_read_the_results_of_an_ended_driver_leaves_that_to_the_worker(
    airflow_database, tmp_path, resource_manager, monkeypatch
):
    resource_manager.state, resource_manager.final_status = "FINISHED", "SUCCEEDED"

    def refused(*arguments):
        raise StorageAccessError(uri=str(tmp_path), detail="AccessDenied")

    monkeypatch.setattr("airflow_delta.triggers.result.written_results", refused)
    monkeypatch.setattr("airflow_delta.triggers.result.UNANSWERED_LIMIT", 0.2)
    assert asyncio.run(event_of(trigger(tmp_path, job_id="application_1_0001"))) == "succeeded"


def test_what_a_look_for_results_raises_does_not_end_the_trigger(airflow_database, tmp_path, monkeypatch):
    """Airflow 3.0 ends each later try, too, with what a trigger raises."""
    leave(tmp_path, 2)
    errors, found = iter([AirflowNotFoundException("the connection is being made anew"), IndexError("a bug")]), written_results

    def failing(*arguments):
        error = next(errors, None)
        if error:
            raise error
        return found(*arguments)

    monkeypatch.setattr("airflow_delta.triggers.result.written_results", failing)
    assert asyncio.run(event_of(trigger(tmp_path))) == "document"


def canceled(waiting, monkeypatch, states, *, map_index=-1):
    """Make Airflow's trigger runner cancel a trigger that its database no longer assigns to this triggerer."""
    waiting.task_instance = SimpleNamespace(
        id="i", dag_id="d", task_id="merge", run_id="r", map_index=map_index, try_number=1, context_carrier=None
    )
    waiting.timeout_after = None  # as the runner of triggers says it below Airflow 3.3
    asked = []

    def get_task_states(**question):
        asked.append(question)
        if isinstance(states, Exception):
            raise states
        return states

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(get_task_states))
    poll, has_polled = waiting._driver_state, threading.Event()
    monkeypatch.setattr(waiting, "_driver_state", lambda: (poll(), has_polled.set())[0])

    async def scenario():
        runner = TriggerRunner()
        runner.triggers[1] = {"task": asyncio.current_task(), "name": "waiting", "events": 0}
        runner.triggers[1]["task"] = asyncio.create_task(runner.run_trigger(1, waiting))
        assert await asyncio.to_thread(has_polled.wait, 60)
        runner.to_cancel.append(1)
        await runner.cancel_triggers()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(runner.triggers[1]["task"], 60)

    asyncio.run(scenario())
    return asked


@pytest.mark.parametrize("map_index", [-1, 3])
@pytest.mark.parametrize("state", [None, "failed", "success", "scheduled", "gone"])
def test_a_person_who_clears_or_marks_the_task_ends_its_driver(
    airflow_database, tmp_path, resource_manager, monkeypatch, state, map_index
):
    resource_manager.state, resource_manager.final_status = "RUNNING", "UNDEFINED"
    name = "merge" if map_index < 0 else f"merge_{map_index}"
    states = {} if state == "gone" else {"r": {name: state}}
    asked = canceled(trigger(tmp_path, job_id="application_1_0001"), monkeypatch, states, map_index=map_index)
    assert resource_manager.killed == ["application_1_0001"]
    question = {"dag_id": "d", "task_ids": ["merge"], "run_ids": ["r"], "map_index": None if map_index < 0 else map_index}
    assert asked == [question]


def test_a_triggerer_that_loses_the_task_to_another_one_lets_the_driver_go_on(
    airflow_database, tmp_path, resource_manager, monkeypatch
):
    """Its heartbeat was late. Airflow 3.3 cancels the trigger as if a user had acted, though the task waits elsewhere."""
    resource_manager.state, resource_manager.final_status = "RUNNING", "UNDEFINED"
    states = {"r": {"merge": "deferred"}}
    assert canceled(trigger(tmp_path, job_id="application_1_0001"), monkeypatch, states) != []
    assert resource_manager.killed == []


def test_where_airflow_does_not_say_why_a_trigger_ends_the_driver_goes_on_unless_only_a_person_can_have_ended_it(
    airflow_database, tmp_path, resource_manager, monkeypatch
):
    resource_manager.state, resource_manager.final_status = "RUNNING", "UNDEFINED"
    error = ConnectionResetError("the triggerer ends")
    assert canceled(trigger(tmp_path, job_id="application_1_0001"), monkeypatch, error) != []
    assert resource_manager.killed == (["application_1_0001"] if HAS_TRIGGER_KILLS else [])


def test_a_time_limit_ends_the_waiting_also_when_the_storage_is_away(airflow_database, tmp_path):
    (tmp_path / "_airflow_delta").mkdir()
    (tmp_path / "_airflow_delta" / "results").write_text("not a directory")
    assert asyncio.run(event_of(trigger(tmp_path, until=time.time() - 1))) == "late"


def test_a_time_limit_ends_the_waiting_for_the_result_of_an_ended_driver_when_the_storage_is_away(
    airflow_database, tmp_path, resource_manager, monkeypatch
):
    resource_manager.state, resource_manager.final_status = "FINISHED", "FAILED"

    def away(*arguments):
        raise ConnectionError("no route to the storage")

    monkeypatch.setattr("airflow_delta.triggers.result.written_results", away)
    waiting = trigger(tmp_path, job_id="application_1_0001", until=time.time() + 1)
    assert asyncio.run(asyncio.wait_for(event_of(waiting), 20)) == "failed"
