"""The sensor reads each commit once, whatever comes between its pokes, and never waits for what may have been lost."""

import asyncio
import threading
import time

import pendulum
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from airflow_delta.catalogs.errors import CatalogUnavailableError, TableNameNotFoundError
from airflow_delta.core.errors import (
    CredentialsExpiredError,
    InvalidPredicateError,
    InvalidStatementError,
    StorageFullError,
    StorageUnavailableError,
)
from airflow_delta.core.storage.local_log_store import LocalLogStore
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.jobs.errors import JobFailedError
from airflow_delta.sensors import DeltaCommitSensor
from airflow_delta.sensors.progress import STATE_KEY
from airflow_delta.triggers.commit import DeltaCommitWaitTrigger
from airflow_delta.watch.errors import CommitsCleanedUpError
from tests.sensors.conftest import Instance, Store

RUN = {"dag_id": "daily", "task_id": "silver", "run_id": "r1", "map_index": -1, "logical_date": "2013-01-01T00:00:00+00:00"}


def sensor(table, **arguments):
    return DeltaCommitSensor(task_id="wait", table=str(table.root), **arguments)


def poke(waiting, context):
    return waiting.poke(context).xcom_value


WAITS = {
    "version": {"min_version": 1},
    "after": {"after_version": 0},
    "since": {"since": "first_poke"},
    "operation": {"after_version": 0, "operations": "MERGE"},
    "partition": {"since": "first_poke", "partitions": "day = DATE'2013-01-02'"},
    "rows": {"after_version": 0, "min_rows": 10},
    "run": {"run_of": {"dag_id": "daily", "run_id": "r1"}},
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_poke_that_finds_nothing_new_is_one_request(table, context, requests, wait):
    waiting = sensor(table, **wait)
    assert poke(waiting, context) is None
    for _ in range(3):
        requests.clear()
        assert poke(waiting, context) is None
        assert requests == [("exists", f"_delta_log/{1:020d}.json")]


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_in_a_new_process_it_is_one_listing(table, context, requests, wait):
    poke(sensor(table, **wait), context)
    requests.clear()
    assert poke(sensor(table, **wait), context) is None
    assert [kind for kind, _ in requests] == ["list"]


def test_a_commit_is_read_once_also_over_retries_and_reschedules(table, context, requests):
    wait = {"since": "first_poke", "operations": "MERGE"}
    poke(sensor(table, **wait), context)
    for version in (1, 2, 3):
        table.write()
        requests.clear()
        assert poke(sensor(table, **wait), context) is None
        assert [name for kind, name in requests if kind == "read"] == [f"{version:020d}.json"]
    merged = table.write(operation="MERGE")
    assert poke(sensor(table, **wait), context) == merged == 4


def test_a_cleared_task_begins_anew_and_another_question_too(table, context):
    wait = {"since": "first_poke", "operations": "MERGE"}
    poke(sensor(table, **wait), context)
    table.write(operation="MERGE")
    assert poke(sensor(table, **wait, partitions="day = DATE'2013-01-02'"), context) is None
    assert context["task_state_store"][STATE_KEY]["after"] == 1
    context["ti"].max_tries += 1
    assert poke(sensor(table, **wait), context) is None
    assert poke(sensor(table, after_version=0, operations="MERGE"), context) == 1


@pytest.mark.parametrize(
    ("wait", "version"),
    [
        ({"operations": ["UPDATE", "MERGE"]}, 2),
        ({"partitions": "day = DATE'2013-01-02'"}, 3),
        ({"partitions": "day = DATE'2013-01-02'", "operations": "WRITE"}, 5),
        ({"data_change_only": True}, 1),
        ({"min_rows": "6"}, 3),
        ({"min_rows": 6, "operations": "WRITE"}, 5),
        ({"min_rows": 100}, None),
    ],
)
def test_the_version_is_the_commit_that_fulfills_the_wait(table, context, wait, version):
    table.write(rows=1)
    table.write(rows=2, operation="MERGE")
    table.write(rows=3, operation="MERGE", day="2013-01-02")
    table.optimize(day="2013-01-02")
    table.write(rows=5, day="2013-01-02")
    assert poke(sensor(table, after_version=0, **wait), context) == version


@pytest.mark.parametrize("beginning", [{"min_version": -1}, {"after_version": "-2"}], ids=str)
def test_a_version_that_no_table_has_is_before_the_first_one(table, context, beginning):
    """The version -1 is that of a table that is not there yet; no commit below 0 was cleaned up."""
    assert poke(sensor(table, operations="MERGE", **beginning), context) is None
    merged = table.write(operation="MERGE")
    assert poke(sensor(table, operations="MERGE", **beginning), context) == merged


def test_rows_are_counted_over_reschedules(table, context):
    for _ in range(3):
        assert poke(sensor(table, after_version=0, min_rows=10), context) is None
        table.write(rows=3)
    assert poke(sensor(table, after_version=0, min_rows=10), context) is None
    table.write(rows=3)
    assert poke(sensor(table, after_version=0, min_rows=10), context) == 4


def test_the_run_of_another_dag_is_found_among_all_commits(table, context):
    wait = {"run_of": {"dag_id": "daily", "task_id": "silver", "logical_date": "2013-01-01 00:00:00+00:00"}}
    table.write()
    assert poke(sensor(table, **wait), context) is None
    table.write(run={**RUN, "task_id": "bronze"})
    assert poke(sensor(table, **wait), context) is None
    committed = table.write(run=RUN)
    table.write()
    assert poke(sensor(table, **wait), context) == committed
    context["ti"].max_tries += 1
    assert poke(sensor(table, **wait), context) == committed


@pytest.mark.parametrize(
    "wait",
    [
        {"run_of": {"dag_id": "daily", "run_id": "r1"}},
        {"after_timestamp": "1970-01-01", "operations": "MERGE"},
        {"during": ("1970-01-01", "3000-01-01"), "operations": "MERGE"},
        {"fresh_within": "1000 days", "operations": "MERGE", "min_rows": None},
    ],
    ids=lambda wait: next(iter(wait)),
)
def test_a_table_that_is_made_anew_while_it_is_waited_for_is_read_from_its_beginning(table, context, monkeypatch, wait):
    monkeypatch.setattr("airflow_delta.watch.commit_watch.LISTED_EVERY", 3)
    for _ in range(5):
        table.write()
    in_one_process = sensor(table, **wait)
    assert (poke(in_one_process, context), poke(sensor(table, **wait), context)) == (None, None)
    table.drop()
    assert poke(sensor(table, **wait), context) is None
    table.create(table_id="another")
    merged = table.write(run=RUN, operation="MERGE")
    assert poke(sensor(table, **wait), context) == merged
    assert [poke(in_one_process, context) for _ in range(3)] == [None, None, merged]


def test_a_version_below_a_checkpoint_was_reached(table, context):
    for _ in range(6):
        table.write()
    table.clean_up(5)
    assert poke(sensor(table, min_version=2), context) == 6


def test_what_may_have_been_cleaned_up_is_an_error_unless_it_is_there_anyway(table, context):
    wait = {"since": "first_poke", "operations": "MERGE"}
    assert poke(sensor(table, **wait), context) is None
    for _ in range(6):
        table.write()
    table.clean_up(5)
    for _ in range(2):  # a retry changes nothing
        with pytest.raises(CommitsCleanedUpError) as raised:
            poke(sensor(table, **wait), context)
        assert raised.value.first == 1
    table.write(operation="MERGE")
    assert poke(sensor(table, after_version=0, operations="MERGE"), context) == 7


def test_a_long_wait_in_one_process_sees_that_the_next_commit_came_and_went(table, context, monkeypatch):
    monkeypatch.setattr("airflow_delta.watch.commit_watch.LISTED_EVERY", 3)
    any_commit, merged = sensor(table, min_version=1), sensor(table, after_version=0, operations="MERGE")
    assert (poke(any_commit, context), poke(merged, context)) == (None, None)
    for _ in range(6):
        table.write()
    table.clean_up(5)
    assert [poke(any_commit, context) for _ in range(3)] == [None, None, 6]
    assert [poke(merged, context) for _ in range(2)] == [None, None]
    with pytest.raises(CommitsCleanedUpError):
        poke(merged, context)


def test_for_a_run_only_what_is_lost_while_it_is_waited_for_counts(table, context):
    wait = {"run_of": {"dag_id": "daily", "run_id": "r1"}}
    for _ in range(6):
        table.write()
    table.clean_up(3)
    assert poke(sensor(table, **wait), context) is None
    table.write(run=RUN)
    assert poke(sensor(table, **wait), context) == 7


@pytest.mark.parametrize(
    "wait",
    [
        {"min_version": 1, "run_of": {"dag_id": "d", "run_id": "r"}},
        {"run_of": {"dag_id": "d"}},
        {"min_version": 1, "min_rows": "many"},
        {"min_version": 1, "operations": ""},
        {"min_version": 1, "operations": ["MERGE", " "]},
        {"min_version": 1, "operations": ["MERGE", None]},
        {"min_version": 1, "operations": "None"},
        {"min_version": 1, "operations": 7},
        {"run_of": "daily"},
        {"run_of": {"dag_id": ["daily"], "run_id": "r"}},
    ],
    ids=str,
)
def test_an_unclear_wait_is_refused(table, context, wait):
    with pytest.raises(InvalidStatementError):
        poke(sensor(table, **wait), context)


def test_no_operations_are_any_operation(table, context):
    assert poke(sensor(table, min_version=0, operations=None, data_change_only=True), context) is None
    written = table.write()
    assert poke(sensor(table, min_version=0, operations=None, data_change_only=True), context) == written


@pytest.mark.parametrize("rendered", [None, [], "", [None]], ids=str)
def test_operations_that_a_template_renders_to_nothing_are_no_wait_for_any_operation(table, context, rendered):
    waiting = sensor(table, min_version=1, operations="{{ params.operations }}")

    def poke_as_rendered():
        waiting.operations = rendered  # as Airflow does, with render_template_as_native_obj
        poke(waiting, context)

    with pytest.raises(InvalidStatementError, match="operation"):
        poke_as_rendered()


def test_the_triggerer_goes_on_where_the_worker_stopped(table, context):
    table.write(rows=4)
    with pytest.raises(TaskDeferred) as deferred:
        sensor(table, after_version=0, min_rows=10, deferrable=True, poke_interval=0.01).execute(context)
    path, arguments = deferred.value.trigger.serialize()
    assert path == "airflow_delta.triggers.commit.DeltaCommitWaitTrigger"
    assert (arguments["wait"]["after"], arguments["wait"]["rows"]) == (1, 4)
    assert arguments["delta_conn_id"] == "delta_default"

    async def wait():
        stream = DeltaCommitWaitTrigger(**arguments).run()
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        table.write(rows=6)
        return (await asyncio.wait_for(waiting, 120)).payload

    assert asyncio.run(wait()) == {"version": 2}


def test_an_error_in_the_triggerer_fails_the_task_with_it(table, context):
    for _ in range(6):
        table.write()
    table.clean_up(5)
    waiting = sensor(table, after_version=0, operations="MERGE")
    wait = waiting.requested_wait().to_json()

    async def fire():
        trigger = DeltaCommitWaitTrigger(table=str(table.root), delta_conn_id="delta_default", wait=wait, poll_interval=1)
        return (await anext(trigger.run())).payload

    with pytest.raises(CommitsCleanedUpError):
        waiting.execute_complete(context, asyncio.run(fire()))


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionError("no route"),
        TimeoutError("slow"),
        StorageUnavailableError(uri="t", detail="503 SlowDown"),
        CredentialsExpiredError(uri="t", detail="ExpiredToken"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_storage_that_does_not_answer_is_waited_for_by_the_triggerer(table, monkeypatch, failure):
    fails_at_first(monkeypatch, LocalLogStore, "list_from", [failure, failure])
    trigger = wait_trigger(table, sensor(table, min_version=0))
    assert asyncio.run(fired(trigger)) == {"version": 0}


@pytest.mark.parametrize(
    "failure",
    [
        CatalogUnavailableError(catalog="c", name="n", detail="no route"),
        TableNameNotFoundError(catalog="c", name="n", detail="it is made anew"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_catalog_that_does_not_answer_or_has_no_such_name_yet_is_waited_for_by_the_triggerer(table, monkeypatch, failure):
    fails_at_first(monkeypatch, DeltaHook, "log_store", [failure, failure])
    trigger = wait_trigger(table, sensor(table, min_version=0))
    assert asyncio.run(fired(trigger)) == {"version": 0}


def fails_at_first(monkeypatch, owner, name, errors):
    method, left = getattr(owner, name), iter(errors)

    def failing(*given, **named):
        error = next(left, None)
        if error:
            raise error
        return method(*given, **named)

    monkeypatch.setattr(owner, name, failing)


def wait_trigger(table, waiting, **arguments):
    wait = waiting.requested_wait().to_json()
    return DeltaCommitWaitTrigger(
        table=str(table.root), delta_conn_id="delta_default", wait=wait, poll_interval=0.01, **arguments
    )


async def fired(trigger):
    return (await asyncio.wait_for(anext(trigger.run()), 120)).payload


class Full(Store):
    """A state store that accepts no more values."""

    def set(self, key, value):
        raise RuntimeError("the API server is away")


class Away(Full):
    """A state store that cannot be read, either."""

    def get(self, key, default=None):
        raise RuntimeError("the API server is away")


@pytest.mark.parametrize("store", [Full, Away])
def test_progress_that_cannot_be_stored_or_read_hides_no_version(table, context, store):
    table.write()
    table.write(operation="MERGE")
    assert poke(sensor(table, after_version=0, operations="MERGE"), context | {"task_state_store": store()}) == 2


def test_a_first_poke_that_cannot_be_remembered_is_an_error_and_a_found_version_none(table, context):
    with pytest.raises(RuntimeError):
        poke(sensor(table, since="first_poke"), context | {"task_state_store": Full()})
    with pytest.raises(RuntimeError):
        poke(sensor(table, since="first_poke"), context | {"task_state_store": Away()})
    waiting = sensor(table, since="first_poke", operations="MERGE")
    assert poke(waiting, context) is None
    table.write()
    table.write(operation="MERGE")
    assert poke(waiting, context | {"task_state_store": Full(context["task_state_store"])}) == 2


def test_what_a_poll_raises_is_an_error_of_its_try_and_not_the_end_of_the_trigger(table, context, monkeypatch):
    """Airflow 3.0 ends each later try, too, with what a trigger raises."""
    fails_at_first(monkeypatch, LocalLogStore, "list_from", [IndexError("a bug\x1b[31m")])
    waiting = sensor(table, min_version=1)
    event = asyncio.run(fired(wait_trigger(table, waiting, try_number=1)))
    assert event == {"error": {"code": "IndexError", "text": "a bug\\x1b[31m"}, "try_number": 1}
    with pytest.raises(JobFailedError, match="IndexError"):
        waiting.execute_complete(context, event)


def test_a_try_that_is_resumed_with_the_error_of_the_one_before_begins_anew(table, context):
    """Airflow 3.0 does so with a retry of a task that was deferred."""
    waiting = sensor(table, min_version=1, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context)
    arguments = deferred.value.trigger.serialize()[1]
    assert arguments["try_number"] == 1
    error = StorageFullError(uri="t", detail="quota")
    event = {"error": error.to_json(), "try_number": arguments["try_number"]}
    with pytest.raises(StorageFullError):
        waiting.execute_complete(context, event)
    with pytest.raises(StorageFullError):  # of a trigger of a release that named no try
        waiting.execute_complete(context, {"error": error.to_json()})

    class NextTry(Instance):
        try_number = 2

    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute_complete(context | {"ti": NextTry()}, event)
    assert deferred.value.trigger.serialize()[1]["try_number"] == 2
    table.write()
    assert waiting.execute_complete(context | {"ti": NextTry()}, event) == 1


@pytest.mark.parametrize("how", [{}, {"mode": "reschedule"}, {"deferrable": True}], ids=["poke", "reschedule", "deferrable"])
def test_a_dag_waits_for_the_run_of_another(table, run_dag, xcom, how):
    with DAG(
        f"waits_for_run_{len(how)}_{next(iter(how), 'poke')}", schedule=None, start_date=pendulum.datetime(2013, 1, 1)
    ) as dag:
        DeltaCommitSensor(
            task_id="wait",
            table="{{ dag_run.conf['table'] }}",
            run_of={"dag_id": "daily", "logical_date": "{{ logical_date }}"},
            poke_interval=0.2,
            timeout=300,
            **how,
        )

    def later():
        time.sleep(1)
        table.write()
        table.write(run=RUN)
        table.write()

    thread = threading.Thread(target=later)
    thread.start()
    run = run_dag(dag, logical_date=pendulum.datetime(2013, 1, 1), run_conf={"table": str(table.root)})
    thread.join()
    assert run.state == "success"
    assert xcom(run, "wait") == 2


def test_a_condition_that_only_spark_can_decide_is_refused_instead_of_taking_any_commit(table, context):
    table.write(day="2013-01-01")
    with pytest.raises(InvalidPredicateError, match="without Spark"):
        poke(sensor(table, min_version=1, partitions="year(day) = 1999"), context)
