"""Whether the log is still the one that the transaction read."""

from __future__ import annotations

from airflow_delta.core.errors import MetadataChangedError, TableExistsError
from airflow_delta.core.log.log_segment import LogSegment, list_log
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore


def check_log_is_the_one_read(store: LogStore, snapshot: Snapshot | None) -> None:
    """Return if the next version would continue the log that the transaction read.

    Args:
        store: The table's log store.
        snapshot: The version that was read; None if the transaction creates the table.

    Raises:
        MetadataChangedError: The table was dropped, or replaced by a new one at the same place.
        TableExistsError: The table exists already, though its first commits were cleaned up.
    """
    if snapshot is None:
        listing = list_log(store)
        if listing.latest_version is not None and 0 not in listing.commits:
            raise TableExistsError(table=store.table_uri, version=listing.latest_version)
    elif not _is_still_there(snapshot.segment, store):
        version = snapshot.version
        raise MetadataChangedError(table=store.table_uri, read_version=version, winning_version=version)


def _is_still_there(segment: LogSegment, store: LogStore) -> bool:
    """Whether the log still holds the version; costs one small request, and is only checked for the version that was read."""
    commit = segment.commit_of_version
    return store.status(commit.path) == commit if commit else segment.is_part_of(list_log(store, segment.version))
