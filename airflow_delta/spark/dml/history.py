"""What the history shows for DELETE and UPDATE: Delta's operation names, parameters and metrics."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.dml.application import AppliedChanges

NO_FILE_WRITTEN = {
    "numAddedFiles": 0,
    "numAddedBytes": 0,
    "numAddedChangeFiles": 0,
    "numCopiedRows": 0,
    "numDeletionVectorsAdded": 0,
    "numDeletionVectorsUpdated": 0,
}
"""Metrics of a statement that writes no file."""


def operation_of(name: str, where: str | None) -> Operation:
    """The operation on the rows that satisfy this condition; on all rows when None."""
    return Operation(name=name, parameters={"predicate": [where or "true"]})


def removal_metrics(removed: pa.Table) -> dict[str, int]:
    """Metrics of removing these files (``ADD_FILE``) from the log."""
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": pc.sum(removed["size"]).as_py() or 0,
        "numDeletionVectorsRemoved": len(removed) - removed["deletion_vector"].null_count,
    }


def written_metrics(applied: AppliedChanges) -> dict[str, int]:
    """Metrics of the files that were written and removed."""
    return {
        "numRemovedFiles": applied.removed_files,
        "numAddedFiles": applied.new_files,
        "numAddedBytes": applied.bytes_added,
        "numAddedChangeFiles": len(applied.changes),
        "numCopiedRows": applied.copied,
        "numDeletionVectorsAdded": applied.deletion_vectors_added,
        "numDeletionVectorsRemoved": applied.deletion_vectors_removed,
        "numDeletionVectorsUpdated": applied.deletion_vectors_updated,
    }


def time_metrics(started: float, scanned: float) -> dict[str, int]:
    """Metrics of the time since ``started``, in milliseconds; rows were known at ``scanned`` (both ``time.monotonic``)."""
    now = time.monotonic()
    seconds = {"executionTimeMs": now - started, "scanTimeMs": scanned - started, "rewriteTimeMs": now - scanned}
    return {name: round(duration * 1000) for name, duration in seconds.items()}
