"""The search of a log for a wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.watch.commit_watch import CommitWatch
from airflow_delta.watch.partition_watch import PartitionWatch
from airflow_delta.watch.waits import CommitWait, Wait, wait_of

Watch = CommitWatch | PartitionWatch


def watch_of(store: LogStore, wait: Wait) -> Watch:
    """The search for a wait in a table's log."""
    return CommitWatch(store, wait) if isinstance(wait, CommitWait) else PartitionWatch(store, wait)


def poll_once(store: LogStore, document: Mapping[str, Any]) -> tuple[int | None, Mapping[str, Any]]:
    """Poll once; return the version found, if any, and the wait with its progress as JSON values. Raises as ``poll``."""
    watch = watch_of(store, wait_of(document))
    return watch.poll(), watch.wait.to_json()
