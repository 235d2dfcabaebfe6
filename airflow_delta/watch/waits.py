"""What is waited for, as triggers carry it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.watch.commit_watch import CommitWait, CommitWatch
from airflow_delta.watch.partition_watch import PartitionWait, PartitionWatch

Wait = CommitWait | PartitionWait
Watch = CommitWatch | PartitionWatch


def wait_of(document: Mapping[str, Any]) -> Wait:
    """The wait that ``to_json`` described."""
    return CommitWait.from_json(document) if "wanted" in document else PartitionWait.from_json(document)


def poll_once(store: LogStore, document: Mapping[str, Any]) -> tuple[int | None, Mapping[str, Any]]:
    """What one poll of a wait finds, and the wait with its progress, both as JSON values. Raises as the poll."""
    watch = wait_of(document).watch(store)
    return watch.poll(), watch.wait.to_json()
