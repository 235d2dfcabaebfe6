"""The trigger fires once, survives serialization, and waits through what may pass."""

import asyncio

import pytest

from airflow_delta.triggers.commit import DeltaCommitWaitTrigger
from airflow_delta.watch.waits import CommitWait
from tests.airflow_versions import import_string


def commit(table, version):
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("{}")


def wait_trigger(table, version, poll_interval):
    wait = CommitWait(after=version - 1).to_json()
    return DeltaCommitWaitTrigger(table=str(table), delta_conn_id="delta_default", wait=wait, poll_interval=poll_interval)


async def events(trigger, during=None):
    async def collect():
        return [event.payload async for event in trigger.run()]

    collecting = asyncio.create_task(collect())
    if during is not None:
        await asyncio.sleep(0.1)
        assert not collecting.done()
        during()
    return await asyncio.wait_for(collecting, timeout=120)


def rebuild(trigger):
    path, arguments = trigger.serialize()
    return import_string(path)(**arguments)


def test_a_version_that_is_there_fires_at_once(tmp_path):
    commit(tmp_path, 4)
    trigger = rebuild(wait_trigger(tmp_path, 3, 60))
    assert asyncio.run(events(trigger)) == [{"version": 4}]


@pytest.mark.parametrize("exists", [True, False], ids=["table", "no table yet"])
def test_a_version_that_comes_later_is_waited_for(tmp_path, exists):
    table = tmp_path / "table"
    if exists:
        commit(table, 0)
    trigger = rebuild(wait_trigger(table, 1, 0.01))
    assert asyncio.run(events(trigger, lambda: commit(table, 1))) == [{"version": 1}]


def test_waiting_for_a_missing_table_makes_no_directory(tmp_path):
    trigger = wait_trigger(tmp_path / "table", 0, 0.01)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(events(trigger), timeout=0.1))
    assert list(tmp_path.iterdir()) == []


def test_the_event_loop_is_never_blocked(tmp_path):
    async def ticks():
        trigger = wait_trigger(tmp_path, 0, 0.001)
        waiting = asyncio.create_task(events(trigger))
        longest, before = 0.0, asyncio.get_running_loop().time()
        for _ in range(50):
            await asyncio.sleep(0.001)
            now = asyncio.get_running_loop().time()
            longest, before = max(longest, now - before), now
        waiting.cancel()
        return longest

    assert min(asyncio.run(ticks()) for _ in range(3)) < 0.5  # what blocks the loop does it each time; others' work does not
