"""The search of a log for what is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.watch.commit_watch import CommitWatch
from airflow_delta.watch.partition_watch import PartitionWatch
from airflow_delta.watch.waits import CommitWait, Wait, wait_of

Watch = CommitWatch | PartitionWatch


def watch_of(store: LogStore, wait: Wait) -> Watch:
    """The search for it in a table's log."""
    return CommitWatch(store, wait) if isinstance(wait, CommitWait) else PartitionWatch(store, wait)


def poll_once(store: LogStore, document: Mapping[str, Any]) -> tuple[int | None, Mapping[str, Any]]:
    """What one poll of a wait finds, and the wait with its progress, both as JSON values. Raises as the poll."""
    watch = watch_of(store, wait_of(document))
    return watch.poll(), watch.wait.to_json()
