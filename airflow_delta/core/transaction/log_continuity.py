"""Whether a log still is the one that was read."""

from __future__ import annotations

from airflow_delta.core.errors import MetadataChangedError, TableExistsError
from airflow_delta.core.log.log_segment import LogSegment, list_log
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore


def check_log_is_the_one_read(store: LogStore, snapshot: Snapshot | None) -> None:
    """Return if the next version follows what was read.

    Args:
        store: The table.
        snapshot: What was read; None for a table that is to be created.

    Raises:
        MetadataChangedError: The table was dropped, or made anew at its place.
        TableExistsError: There is an old table, whose first commits are gone.
    """
    if snapshot is None:
        listing = list_log(store)
        if listing.latest_version is not None and 0 not in listing.commits:
            raise TableExistsError(table=store.table_uri, version=listing.latest_version)
    elif not _is_still_there(snapshot.segment, store):
        version = snapshot.version
        raise MetadataChangedError(table=store.table_uri, read_version=version, winning_version=version)


def _is_still_there(segment: LogSegment, store: LogStore) -> bool:
    """Checked with one small request, and not at all for other versions than the one that was read."""
    commit = segment.commit_of_version
    return store.status(commit.path) == commit if commit else segment.is_part_of(list_log(store, segment.version))
