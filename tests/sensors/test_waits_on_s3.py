"""Commits of others are seen on an object store, by any writer and after any number of polls."""

import asyncio
import json
import threading

import pytest

from airflow_delta.core.log.file_names import commit_path
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.sensors import DeltaCommitSensor
from airflow_delta.triggers.commit import DeltaCommitWaitTrigger
from airflow_delta.triggers.commit_event import DeltaCommitEventTrigger
from tests.core.builders import add, metadata, protocol
from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures


class Instance:
    max_tries = 0


@pytest.fixture
def table(s3, monkeypatch):  # noqa: F811 - the fixture
    connection = {"conn_type": "delta", "host": s3.uri, "extra": {"storage_options": s3.options}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))

    def commit(version, *actions):
        """Commit as another process does: with a client of its own, independent of our listings."""
        lines = [json.dumps(action) for action in ({"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, *actions)]
        s3.client.put_object(Bucket=s3.bucket, Key=f"t/{commit_path(version)}", Body="\n".join(lines).encode())

    commit(0, protocol(), metadata())
    return commit


def test_a_listing_is_never_taken_from_a_cache(table):
    """fsspec would answer the second listing from its cache of the first."""
    sensor = DeltaCommitSensor(
        task_id="wait", table="t", delta_conn_id="lake", after_version=0, data_change_only=True, operations="WRITE"
    )
    context = {"task_state_store": {}, "ti": Instance()}
    assert not sensor.poke(context)
    table(1, add("x"))
    assert sensor.poke(context).xcom_value == 1

    async def announced():
        trigger = DeltaCommitEventTrigger(table="t", delta_conn_id="lake", start=2, poll_interval=0.05)
        waiting = asyncio.create_task(anext(trigger.run()))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        table(2, add("y"))
        return (await asyncio.wait_for(waiting, 120)).payload

    event = asyncio.run(announced())
    assert (event["table"].rpartition("/")[2], event["from_version"], event["to_version"]) == ("t", 2, 2)


def test_the_triggerer_s_loop_does_no_input_or_output_itself(table, monkeypatch):
    """Connection, filesystem and listings belong in a thread; s3fs would even refuse to run in the event loop."""
    threads, log_store = set(), DeltaHook.log_store
    thread_began, loop_went_on = threading.Event(), threading.Event()

    def slow(hook, name):
        threads.add(threading.current_thread())
        thread_began.set()
        assert loop_went_on.wait(60)
        return log_store(hook, name)

    monkeypatch.setattr(DeltaHook, "log_store", slow)
    table(1, add("x"))
    wait = (
        DeltaCommitSensor(task_id="wait", table="t", delta_conn_id="lake", min_version=1, operations="WRITE")
        .requested_wait()
        .to_json()
    )
    triggers = [
        DeltaCommitWaitTrigger(table="t", delta_conn_id="lake", wait=wait, poll_interval=1),
        DeltaCommitEventTrigger(table="t", delta_conn_id="lake", start="earliest", poll_interval=1),
    ]

    async def fire(trigger):
        thread_began.clear()
        loop_went_on.clear()
        waiting = asyncio.create_task(anext(trigger.run()))
        while not thread_began.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.01)
        loop_went_on.set()
        return (await waiting).payload

    assert asyncio.run(fire(triggers[0])) == {"version": 1}
    assert asyncio.run(fire(triggers[1]))["to_version"] == 1
    assert threading.main_thread() not in threads
    for trigger in triggers:  # a stored trigger names the connection, and contains nothing of it
        assert "test" not in json.dumps(trigger.serialize()[1])
