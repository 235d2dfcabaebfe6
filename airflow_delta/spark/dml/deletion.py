"""Deletes the rows that a condition selects, for every statement that only deletes rows of existing files.

They are marked in deletion vectors if the table uses these; otherwise their files are rewritten without them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.clock import Clock
from airflow_delta.core.schema import StructType
from airflow_delta.spark.dml.application import AppliedChanges, apply_changes, apply_deletion_vectors
from airflow_delta.spark.dml.clauses import BoundClause, BoundClauses, ClauseKind
from airflow_delta.spark.dml.deletion_vectors import marked_files, uses_deletion_vectors, write_deletion_vectors
from airflow_delta.spark.dml.effects import RowEffects, count_effects
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.dml.staged_changes import StagedChanges
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.staging import StagingArea

_DELETE = BoundClauses(clauses=(BoundClause(kind=ClauseKind.DELETE, values={}),), updated=StructType(()), moves_rows=False)
"""Deletes every selected row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeletedRows:
    """The rows to delete.

    Attributes:
        files: The files (``COUNTED_FILE`` at least) with such rows.
        rows: Number of rows.
        scanned: When they were known, as of ``time.monotonic``, in seconds.
        applied: What was written to delete them; None if there are no rows, or they are only counted.
    """

    files: pa.Table
    rows: int
    scanned: float
    applied: AppliedChanges | None = None


def count_rows(spark: SparkSession, selection: Selection, candidates: pa.Table) -> DeletedRows:
    """Find the selected rows of the candidates (``COUNTED_FILE``); nothing is written."""
    with RowCache(None) as cache:
        _, effects = _find(spark, selection, candidates, cache)
    return DeletedRows(files=candidates.take(effects.touched_files), rows=effects.deleted, scanned=time.monotonic())


def delete_rows(
    spark: SparkSession, selection: Selection, candidates: pa.Table, staging: StagingArea, clock: Clock
) -> DeletedRows:
    """Find the selected rows of the candidates, and write what deletes them.

    Args:
        spark: The session.
        selection: Which rows.
        candidates: The files (``COUNTED_FILE`` at least) to search.
        staging: Where files are written.
        clock: Gives the deletion time of the removes.

    Raises:
        StagedFilesError: The number of rows written is not the expected one.
    """
    if uses_deletion_vectors(selection.snapshot):
        return _mark(spark, selection, candidates, staging, clock)
    with RowCache(selection.snapshot.store) as cache:
        staged, effects = _find(spark, selection, candidates, cache)
        scanned = time.monotonic()
        return DeletedRows(
            files=candidates.take(effects.touched_files),
            rows=effects.deleted,
            scanned=scanned,
            applied=None if effects.is_nothing else apply_changes(staged, effects, staging, clock),
        )


def _find(spark: SparkSession, selection: Selection, candidates: pa.Table, cache: RowCache) -> tuple[StagedChanges, RowEffects]:
    staged = selection.stage(spark, _DELETE, candidates, cache=cache)
    return staged, count_effects(staged, are_matches_unique=True)


def _mark(spark: SparkSession, selection: Selection, candidates: pa.Table, staging: StagingArea, clock: Clock) -> DeletedRows:
    """Find the rows and write deletion vectors in one pass, as each scan task reads whole files, in order."""
    snapshot = selection.snapshot
    numbers = pa.array(range(len(candidates)), pa.int32())
    written = write_deletion_vectors(snapshot, candidates, numbers, selection.positions(spark, candidates), staging)
    found = written["file"].combine_chunks()
    files = snapshot.completed(candidates.take(found))
    deleted_before = pc.sum(pc.struct_field(files["deletion_vector"], "cardinality")).as_py() or 0
    return DeletedRows(
        files=files,
        rows=(pc.sum(written["cardinality"]).as_py() or 0) - deleted_before,
        scanned=time.monotonic(),
        applied=apply_deletion_vectors(files, marked_files(files, found, written), clock) if len(files) else None,
    )
