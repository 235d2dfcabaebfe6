"""What a conversion has to say that the last one did not: the files that came and went."""

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
"""What is needed of a file, as ``Snapshot.files`` names it."""

MOST_WITH_BOUNDS: Final = 200_000
"""Files whose statistics are read from the log at once; they take more memory than all the rest."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangedFiles:
    """The files that came and went.

    Attributes:
        added: Columns ``CONVERTED_FILE``, and their statistics unless they are very many.
        removed: Paths as in the log; those of added files too, where the log may have named them before.
        changes_data: Whether rows came or went, rather than moved.
    """

    added: pa.Table
    removed: pa.ChunkedArray
    changes_data: bool = True

    @classmethod
    def of_commit(cls, actions: CommitActions) -> ChangedFiles:
        """Those of one commit. A file that is added without data change may be there: its statistics or ids are new."""
        adds, removes = actions.adds, actions.removes
        moved = pc.any(pc.invert(adds["data_change"]), min_count=0).as_py()
        repeated = adds["path"].chunks if moved or len(removes) else []
        gone = pa.chunked_array([*removes["path"].chunks, *repeated], pa.string()).unique()
        added = with_record_counts(adds, (*CONVERTED_FILE, STATISTICS))
        return cls(added=added, removed=pa.chunked_array([gone]), changes_data=not moved)

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> ChangedFiles:
        """Those that lead from one version of the table to a later one."""
        earlier, later = (snapshot.files(columns=CONVERTED_FILE) for snapshot in (before, after))
        before_, after_ = (
            file_keys(earlier).combine_chunks(),
            file_keys(later).combine_chunks(),
        )  # deletion vectors come by path
        stays, is_new = pc.is_in(before_, after_), pc.invert(pc.is_in(after_, before_))
        return cls(added=_with_statistics(after, later.filter(is_new)), removed=earlier["path"].filter(pc.invert(stays)))

    @classmethod
    def all_of(cls, snapshot: Snapshot) -> ChangedFiles:
        """All files of the table."""
        files = snapshot.files(columns=CONVERTED_FILE)
        return cls(added=_with_statistics(snapshot, files), removed=pa.chunked_array([], pa.string()))


def _with_statistics(snapshot: Snapshot, files: pa.Table) -> pa.Table:
    if not len(files) or len(files) > MOST_WITH_BOUNDS:
        return files
    return files.append_column(STATISTICS, snapshot.completed(files)[STATISTICS])


def files_since(log: TableLog, version: int, last: int, actions: CommitActions | None) -> ChangedFiles | None:
    """What changed after version ``last``; None where the log does not hold it any more.

    Args:
        log: The table.
        version: Up to this one.
        last: The version that was converted last.
        actions: Of the version, where they are at hand.
    """
    if actions is not None and last == version - 1:
        return ChangedFiles.of_commit(actions)
    try:
        return ChangedFiles.between(log.snapshot(last), log.snapshot(version))
    except (VersionNotFoundError, CorruptLogError):
        return None
