"""Hostile logs in the triggerer: a poll ends in an event or a typed error, and never blocks other triggers."""

import asyncio
import contextlib
import gc
import json
import shutil

import pytest

from airflow_delta.triggers.commit import DeltaCommitWaitTrigger
from airflow_delta.triggers.commit_event import DeltaCommitEventTrigger
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.waits import CommitWait
from tests.attacks.catalog import files, logs
from tests.attacks.hostile_table import HostileTable, make_outside

LONGEST_BLOCK = 0.1  # seconds
ROUNDS = 4  # on a busy machine one round may be slow; a log that blocks does so in each round
SECONDS_AT_MOST = 30

ATTACKS = logs.ATTACKS | files.ATTACKS


@pytest.fixture
def small_heap():
    """Exclude what pytest loaded from garbage collection, which stops all threads while it walks the heap."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_event_loop_is_not_blocked_by_a_hostile_log(tmp_path, attack):
    blocked = []
    for number in range(ROUNDS):
        root = tmp_path / str(number)
        make_outside(root)
        table = HostileTable(root, "127.0.0.1:1")
        ATTACKS[attack](table)
        blocked += [asyncio.run(_longest_block(trigger)) for trigger in _triggers(table)]
        shutil.rmtree(root)
        if max(blocked[-2:]) <= LONGEST_BLOCK:
            return
    assert min(max(pair) for pair in zip(blocked[::2], blocked[1::2], strict=True)) <= LONGEST_BLOCK, blocked


def _triggers(table):
    table.commit(
        {"commitInfo": {"timestamp": 1, "operation": "OPTIMIZE", "operationMetrics": {}}}, table.data_file("part-9.parquet")
    )
    wait = CommitWait(after=-1, wanted=CommitFilter(operations=("OPTIMIZE",))).to_json()
    common = {"table": str(table.root), "delta_conn_id": "delta_default", "poll_interval": 0.01}
    return (
        DeltaCommitWaitTrigger(**common, wait=wait),
        DeltaCommitEventTrigger(**common, start="earliest", partitions=None),
    )


async def _longest_block(trigger):
    """Seconds for which the event loop was blocked while the trigger polled, for ``SECONDS_AT_MOST`` at most."""

    async def first_event():
        with contextlib.suppress(StopAsyncIteration):
            event = await anext(aiter(trigger.run()))
            json.dumps(event.payload)

    looking = asyncio.create_task(first_event())
    loop = asyncio.get_running_loop()
    end, longest, before = loop.time() + SECONDS_AT_MOST, 0.0, loop.time()
    while not looking.done() and loop.time() < end:
        await asyncio.sleep(0.002)
        now = loop.time()
        longest, before = max(longest, now - before), now
    if looking.done():
        looking.result()
    looking.cancel()
    return longest
