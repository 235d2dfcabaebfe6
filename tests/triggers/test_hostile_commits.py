"""Whatever a commit holds and however large it is, the triggerer's event loop goes on."""

import asyncio
import json
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_delta.core.log.file_names import commit_path
from airflow_delta.triggers.commit import DeltaCommitWaitTrigger
from airflow_delta.triggers.commit_event import DeltaCommitEventTrigger
from airflow_delta.watch import bounded_log
from airflow_delta.watch.bounded_log import BoundedLog
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.waits import CommitWait
from tests.core.builders import add
from tests.watched_table import WatchedTable

LONGEST_PAUSE = 0.1
MOST_BYTES = 1 << 20  # that the triggerer reads in its own process
SIZE = 900_000
CORRUPT = {
    "84 KB of maps that never close": b'{"add":{"path":"x","tags":{' + b'"tags":{\\"' * 8_400,
    "partition values that never close": b'{"add":{"path":"x","tags":{' + b'"partitionValues":{\\"' * 40_000,
    "many values": f'{{"commitInfo":[{"[]," * (SIZE // 3)}0]}}'.encode(),
    "nesting": b'{"commitInfo":' + b"[" * SIZE,
    "many lines": b"{}\n" * (SIZE // 3) + b"[",
    "many keys": b'{"commitInfo":{%s' % b",".join(b'"%d":1' % number for number in range(80_000)),
}


def files(count, day, **fields):
    return (add(f"{number:040}.parquet", partitionValues={"day": day}, **fields) for number in range(count))


async def events_and_pause(trigger):
    """The first event, and the longest time for which nothing else ran.

    A pause counts as wall-clock time, but at most as the CPU time of this process in it, as other processes compete.
    """
    longest = 0.0

    async def watch_pauses():
        nonlocal longest
        while True:
            passed, computed = time.perf_counter(), time.process_time()
            await asyncio.sleep(0.002)
            longest = max(longest, min(time.perf_counter() - passed - 0.002, time.process_time() - computed))

    watching = asyncio.create_task(watch_pauses())
    async with asyncio.timeout(120):
        event = await anext(trigger.run())
    watching.cancel()
    return event.payload, longest


def first_event(make_trigger):
    """The event, with the shortest of three longest pauses: code that blocks the loop does so each time."""
    found = []
    while not found or (found[-1][1] > LONGEST_PAUSE and len(found) < 3):
        found.append(asyncio.run(events_and_pause(make_trigger())))
    assert min(pause for _, pause in found) <= LONGEST_PAUSE
    return found[-1][0]


@pytest.fixture
def table(tmp_path):
    made = WatchedTable(tmp_path / "table")
    made.create()
    return made


def wait_for(table, **wanted):
    wait = CommitWait(after=0, wanted=CommitFilter.of(**wanted)).to_json()
    return DeltaCommitWaitTrigger(table=str(table.root), delta_conn_id="delta_default", wait=wait, poll_interval=0.01)


@pytest.mark.parametrize("case", CORRUPT)
def test_a_hostile_commit_is_an_error_and_no_pause(case, table):
    assert len(CORRUPT[case]) < 1_000_000
    table.store.write(commit_path(1), CORRUPT[case])
    event = first_event(lambda: wait_for(table, partitions="day = DATE'2013-01-02'"))
    assert event["error"]["code"] in {"DELTA_CORRUPT_LOG", "DELTA_UNFINISHED_COMMIT"}
    assert event["error"]["attributes"]["file"] == commit_path(1)


def test_a_hostile_commit_that_can_be_read_is_no_pause(table):
    table.commit("WRITE", *(add(f"p{number}", tags={f"key-{number}": "v"}) for number in range(SIZE // 160)))
    table.write("2013-01-02")
    assert first_event(lambda: wait_for(table, partitions="day = DATE'2013-01-02'")) == {"version": 2}


def test_a_commit_of_any_size_is_read_in_another_process(table):
    table.commit("WRITE", *files(8_000, "2013-01-01"))
    table.commit("WRITE", *files(8_000, "2013-01-02"))
    assert (table.root / commit_path(1)).stat().st_size > MOST_BYTES
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert first_event(lambda: wait_for(table, partitions="day = DATE'2013-01-02'")) == {"version": 2}
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > before


def test_a_corrupt_commit_of_any_size_is_the_same_error(table):
    table.store.write(commit_path(1), b'{"add":{"path":"x","tags":{' + b'"tags":{\\"' * 1_000_000)
    event = first_event(lambda: wait_for(table, partitions="day = DATE'2013-01-02'"))
    assert event["error"]["attributes"]["file"] == commit_path(1)


def test_an_asset_gets_events_of_commits_of_any_size(table):
    table.commit("OPTIMIZE", *files(8_000, "2013-01-01", dataChange=False))
    table.commit("WRITE", *files(8_000, "2013-01-02", stats=json.dumps({"numRecords": 2})))
    table.write("2013-01-02")
    event = first_event(
        lambda: DeltaCommitEventTrigger(table=str(table.root), start=1, partitions="day = DATE'2013-01-02'", poll_interval=0.01)
    )
    assert (event["from_version"], event["to_version"], event["commits"], event["rows"]) == (2, 3, 2, 16_001)


@pytest.mark.slow
def test_many_large_logs_keep_no_other_wait_from_its_thread(table, monkeypatch):
    """They are read one after the other, each for minutes perhaps, while all triggers share a few threads."""
    read, may_be_read = BoundedLog.run_in_process, threading.Event()

    def later(log, work):
        assert may_be_read.wait(120)
        return read(log, work)

    monkeypatch.setattr(bounded_log, "MOST_BYTES", 10)
    monkeypatch.setattr(BoundedLog, "run_in_process", later)
    table.write("2013-01-02")
    large = [
        *(wait_for(table, partitions="day = DATE'2013-01-02'") for _ in range(3)),
        *(DeltaCommitEventTrigger(table=str(table.root), start=1, poll_interval=0.01) for _ in range(3)),
    ]

    async def scenario():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        waiting = [asyncio.create_task(anext(trigger.run())) for trigger in large]
        await asyncio.sleep(0.5)
        try:
            async with asyncio.timeout(20):
                events = [await anext(wait_for(table).run())]  # which needs no more than the names of the files
            assert not any(task.done() for task in waiting)
        finally:
            may_be_read.set()
        return [event.payload for event in events + await asyncio.wait_for(asyncio.gather(*waiting), 120)]

    found = asyncio.run(scenario())
    assert found[:4] == [{"version": 1}] * 4
    assert [event["to_version"] for event in found[4:]] == [1, 1, 1]
