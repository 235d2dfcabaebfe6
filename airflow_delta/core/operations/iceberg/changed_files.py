"""The files added and removed since the last conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitActions
from airflow_delta.core.errors import CorruptLogError, VersionNotFoundError
from airflow_delta.core.log.action_reconciliation import file_keys
from airflow_delta.core.log.record_counts import NUM_RECORDS, with_record_counts
from airflow_delta.core.operations.iceberg.data_files import STATISTICS
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.snapshot.snapshot import Snapshot

CONVERTED_FILE: Final = ("path", "partition_values", "size", "deletion_vector", NUM_RECORDS.name)
"""Columns that a conversion needs of a file, named as in ``Snapshot.files``."""

MOST_WITH_BOUNDS: Final = 200_000
"""Most files whose statistics are read at once; statistics need more memory than all other columns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangedFiles:
    """The files that were added and removed.

    Attributes:
        added: Columns ``CONVERTED_FILE``, and statistics unless there are too many files.
        removed: Paths as in the log; also those of added files that may have been live before.
        changes_data: Whether rows were added or removed, rather than only moved.
    """

    added: pa.Table
    removed: pa.ChunkedArray
    changes_data: bool = True

    @classmethod
    def of_commit(cls, actions: CommitActions) -> ChangedFiles:
        """The changes of one commit. A file added without data change may be live already, with new statistics or row ids."""
        adds, removes = actions.adds, actions.removes
        moved = pc.any(pc.invert(adds["data_change"]), min_count=0).as_py()
        repeated = adds["path"].chunks if moved or len(removes) else []
        gone = pa.chunked_array([*removes["path"].chunks, *repeated], pa.string()).unique()
        added = with_record_counts(adds, (*CONVERTED_FILE, STATISTICS))
        return cls(added=added, removed=pa.chunked_array([gone]), changes_data=not moved)

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> ChangedFiles:
        """The changes from one version of the table to a later one."""
        earlier, later = (snapshot.files(columns=CONVERTED_FILE) for snapshot in (before, after))
        before_, after_ = (
            file_keys(earlier).combine_chunks(),
            file_keys(later).combine_chunks(),
        )  # deletion vectors follow by path
        stays, is_new = pc.is_in(before_, after_), pc.invert(pc.is_in(after_, before_))
        return cls(added=_with_statistics(after, later.filter(is_new)), removed=earlier["path"].filter(pc.invert(stays)))

    @classmethod
    def all_of(cls, snapshot: Snapshot) -> ChangedFiles:
        """All files of the table, as added."""
        files = snapshot.files(columns=CONVERTED_FILE)
        return cls(added=_with_statistics(snapshot, files), removed=pa.chunked_array([], pa.string()))


def _with_statistics(snapshot: Snapshot, files: pa.Table) -> pa.Table:
    if not len(files) or len(files) > MOST_WITH_BOUNDS:
        return files
    return files.append_column(STATISTICS, snapshot.completed(files)[STATISTICS])


def files_since(log: TableLog, version: int, last: int, actions: CommitActions | None) -> ChangedFiles | None:
    """The changes after version ``last``; None if the log no longer holds them.

    Args:
        log: The table.
        version: The last version to include.
        last: The version that was converted last.
        actions: The actions of ``version``, if available.
    """
    if actions is not None and last == version - 1:
        return ChangedFiles.of_commit(actions)
    try:
        return ChangedFiles.between(log.snapshot(last), log.snapshot(version))
    except (VersionNotFoundError, CorruptLogError):
        return None
