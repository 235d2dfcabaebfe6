"""What a commit wrote, under the same names for all operations: Delta's names of metrics differ between operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_delta.core.foreign_values import natural_number

_FILES = ("numTargetFilesAdded", "numAddedFiles", "numRestoredFiles", "numCopiedFiles", "numConvertedFiles", "numFiles")
_BYTES = ("numTargetBytesAdded", "numAddedBytes", "restoredFilesSize", "copiedFilesSize", "numOutputBytes")
_CHANGED_ROWS = (
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "numUpdatedRows",
    "numDeletedRows",
)
_WRITTEN_ROWS = "numOutputRows"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStatistics:
    """What one commit wrote; None for members that the operation's metrics do not contain.

    Attributes:
        rows: Rows inserted, updated and deleted; rows that a rewrite only copied do not count.
        files: Number of data files added.
        bytes: Size of these files in bytes.
    """

    rows: int | None = None
    files: int | None = None
    bytes: int | None = None


def commit_statistics(metrics: Mapping[str, int | str]) -> CommitStatistics:
    """The statistics in an operation's metrics."""
    numbers = {name: number for name, value in metrics.items() if (number := natural_number(value)) is not None}
    changed = [numbers[name] for name in _CHANGED_ROWS if name in numbers]
    return CommitStatistics(
        rows=sum(changed) if changed else numbers.get(_WRITTEN_ROWS),
        files=next((numbers[name] for name in _FILES if name in numbers), None),
        bytes=next((numbers[name] for name in _BYTES if name in numbers), None),
    )
