"""Polls of a log: which commits become an event, and what it says of them."""

import json

import pytest

from airflow_delta.core.log.file_names import commit_file
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.watch.commit_cursor import WatchCursor, poll
from airflow_delta.watch.commit_filter import CommitFilter

METADATA = {"id": "new", "format": {"provider": "parquet"}, "schemaString": "{}", "partitionColumns": [], "configuration": {}}


@pytest.fixture
def store():
    """A table whose second commit is an OPTIMIZE; files are written at 10 ms, the commits say 1,000 ms and 2,000 ms."""
    store = InMemoryLogStore("memory://table", clock=lambda: 10)
    for version, operation in enumerate(["WRITE", "OPTIMIZE"]):
        info = {"commitInfo": {"inCommitTimestamp": 1_000 * (version + 1), "operation": operation}}
        actions = [info, {"metaData": METADATA}] if version == 0 else [info]
        store.write(f"_delta_log/{commit_file(version)}", "\n".join(map(json.dumps, actions)).encode())
    return store


def test_a_table_created_again_is_announced_with_the_in_commit_timestamp_of_its_latest_version(store):
    cursor = WatchCursor(version=7, table_id="old", size=1, modification_time=1)
    event = poll(store, cursor, CommitFilter(operations=("WRITE",))).event
    assert (event["reset"], event["to_version"], event["commits"], event["timestamp"]) == (True, 1, 1, 2_000)


def test_without_a_reset_the_event_ends_with_the_latest_commit_that_is_wanted(store):
    event = poll(store, WatchCursor(version=-1), CommitFilter(operations=("WRITE",))).event
    assert (event["reset"], event["to_version"], event["timestamp"]) == (False, 0, 1_000)
