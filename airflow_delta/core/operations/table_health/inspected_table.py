"""The state of a table that the health check reads."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.log.log_segment import LogListing, list_log
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.unneeded_files import folders_of_other_formats, named_paths, unneeded_files
from airflow_delta.core.operations.vacuum_candidates import list_files_below_root
from airflow_delta.core.schema.column_mapping import physical_name
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.transaction.table_properties import deleted_file_retention

SMALL_FILE = 16 << 20
"""Bytes below which a data file counts as small."""


class InspectedTable:
    """The state of a table that the checks share, read once.

    Attributes:
        snapshot: The latest version; None if it cannot be opened; ``error`` holds the reason.
        files: Its live files, columns ``ADD_FILE``; only with a snapshot.
        listed: Every file below the root, columns ``LISTED_FILE``; None if files are not listed.
        unneeded: The files that a vacuum with the table's own retention would delete; None if unknown.
    """

    def __init__(self, log: TableLog, *, with_files: bool) -> None:
        self.log = log
        self.snapshot: Snapshot | None = None
        self.error: DeltaError | None = None
        self.listing: LogListing = list_log(log.store)
        self.listed: pa.Table | None = None
        self.unneeded: pa.Table | None = None
        now = log.clock()
        try:
            self.snapshot = log.refresh()
            self.files = self.snapshot.files()
            needed = _needed(self.snapshot, now) if with_files else None
        except DeltaError as error:
            if self.listing.latest_version is None:
                raise
            self.error = error
            self.snapshot = needed = None
        # Last, so that nothing is listed if there is no table, and files of commits made meanwhile are included.
        if with_files:
            self.listed = list_files_below_root(log.store)
        if self.snapshot and self.listed is not None and needed is not None:
            self.unneeded = _unneeded(self.snapshot, self.listed, needed, now)

    @property
    def commits_since_checkpoint(self) -> int:
        """How many commits every reader must read after the checkpoint."""
        return len(self.snapshot.segment.commits) if self.snapshot else 0

    def figures(self) -> dict[str, int]:
        """The figures of ``TableHealth``."""
        if self.snapshot is None:
            return {}
        found = {
            "files": len(self.files),
            "bytes": pc.sum(self.files["size"]).as_py() or 0,
            "small_files": pc.sum(pc.less(self.files["size"], SMALL_FILE)).as_py() or 0,
            "deletion_vectors": len(self.files) - self.files["deletion_vector"].null_count,
            "commits_since_checkpoint": self.commits_since_checkpoint,
        }
        if self.unneeded is not None:
            found["unneeded_files"] = len(self.unneeded)
            found["unneeded_bytes"] = pc.sum(self.unneeded["size"]).as_py() or 0
        return found


def _cutoff(snapshot: Snapshot, now: int) -> int:
    return now - deleted_file_retention(snapshot.metadata.configuration)


def _needed(snapshot: Snapshot, now: int) -> pa.ChunkedArray:
    """The paths that a vacuum keeps. Raises ``CorruptLogError`` if the log cannot be read."""
    tombstones = snapshot.tombstones()
    recent = tombstones.filter(pc.greater_equal(tombstones["deletion_timestamp"], _cutoff(snapshot, now)))
    files = [files.select(["path", "deletion_vector"]) for files in (snapshot.files(), recent)]
    return named_paths(files, table=snapshot.table_uri)


def _unneeded(snapshot: Snapshot, listed: pa.Table, needed: pa.ChunkedArray, now: int) -> pa.Table:
    names = {physical_name(field) for field in snapshot.schema.fields if field.name in snapshot.partition_columns}
    kept = folders_of_other_formats(snapshot.metadata)
    return unneeded_files(listed, needed, names, _cutoff(snapshot, now), kept_below=kept)
