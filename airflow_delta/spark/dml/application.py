"""Turns decisions about rows into the files that a commit adds and removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import NO_ADDS, NO_CHANGES, removes_of
from airflow_delta.core.clock import Clock
from airflow_delta.core.data_files.changed_rows import CHANGE_TYPE, INSERT, UPDATE_POSTIMAGE
from airflow_delta.core.schema import StructType
from airflow_delta.core.statements import Expectation
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.core.wording import counted
from airflow_delta.spark.change_feed.recording import keep_rows, records_changes
from airflow_delta.spark.dml.clauses import ClauseKind
from airflow_delta.spark.dml.deletion_vectors import marked_files, uses_deletion_vectors, write_deletion_vectors
from airflow_delta.spark.dml.effects import RowEffects
from airflow_delta.spark.dml.position_scan import FILE, ROW_ID
from airflow_delta.spark.dml.position_scan import ROW as POSITION
from airflow_delta.spark.dml.staged_changes import CLAUSE_INDEX, MOVED, StagedChanges
from airflow_delta.spark.errors import StagedFilesError
from airflow_delta.spark.io.file_tasks import spread_by_file
from airflow_delta.spark.io.row_tracking import row_id_column
from airflow_delta.spark.io.row_width import row_width
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.tasks import task_count
from airflow_delta.spark.rewrite.rewrite import FileRewrite, Rewritten
from airflow_delta.spark.rewrite.row_changes import DROP, LIVES_ON, OUTPUT, ROW
from airflow_delta.spark.schema_conversion import quoted, to_spark
from airflow_delta.spark.statement.expectations import check_expectations
from airflow_delta.spark.statement.staged_rows import StagedRows, write_change_rows, write_rows
from airflow_delta.spark.statement.steps import log_step, size_of
from airflow_delta.spark.statement.target_reads import TargetReads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AppliedChanges:
    """The files of a statement, written but not committed.

    Attributes:
        adds: Files to add, ``ADD_FILE``.
        removes: The files that they replace, ``REMOVE_FILE``.
        changes: Change data files, ``CHANGE_FILE``; empty if adds and removes suffice.
        new_files: Number of adds that are new files; the others are existing files with another deletion vector.
        removed_files: Number of files that are removed, rather than added again with another deletion vector.
        copied: Rows copied unchanged from old files.
        written: Rows in the new files.
        deletion_vectors_added: Deletion vectors written.
        deletion_vectors_removed: Deletion vectors that the affected files had.
        deletion_vectors_updated: Files whose deletion vector replaces an earlier one.
    """

    adds: pa.Table
    removes: pa.Table
    new_files: int
    removed_files: int
    copied: int
    written: int
    changes: pa.Table = field(default_factory=lambda: NO_CHANGES)
    deletion_vectors_added: int = 0
    deletion_vectors_removed: int = 0
    deletion_vectors_updated: int = 0

    @property
    def bytes_added(self) -> int:
        """Size of the new files, in bytes."""
        return pc.sum(self.adds["size"]).as_py() or 0

    @property
    def bytes_removed(self) -> int:
        """Size of the removed files, in bytes."""
        return pc.sum(self.removes["size"]).as_py() or 0


def apply_changes(staged: StagedChanges, effects: RowEffects, staging: StagingArea, clock: Clock) -> AppliedChanges:
    """Write the files with the changed rows.

    Raises:
        ConstraintViolatedError: A NOT NULL column contains NULL.
        StagedFilesError: The number of rows written is not the expected one.
    """
    touched = staged.snapshot.completed(staged.candidates.take(effects.touched_files))
    marks_rows = uses_deletion_vectors(staged.snapshot)
    if len(touched):
        log_step(
            "%s %s (%s)", "Marking rows of" if marks_rows else "Rewriting", counted(len(touched), "file"), size_of(touched)
        )
    records = _records(staged, effects, touched, marks_rows=marks_rows)
    # Updated rows that are not written in place of their file: they have all their columns, and keep their row ids.
    elsewhere = staged.of(ClauseKind.UPDATE) if marks_rows else F.col(MOVED)
    new_rows = effects.inserted + (effects.updated if marks_rows else effects.moved)
    tasks = task_count(new_rows * effects.row_bytes, new_rows, 1)
    new = staged.rows.where(staged.of(ClauseKind.INSERT) | elsewhere).coalesce(tasks)
    marked = _mark_deleted(staged, effects, touched, staging) if marks_rows else NO_ADDS
    rewritten = _rewrite(staged, effects, staging, clock, elsewhere=elsewhere, writes=not marks_rows, records=records)
    size = new_rows * row_width(staged.snapshot.schema)
    held = None if staged.here is None else _new_rows_here(staged, staged.here, marks_rows=marks_rows)
    inserted = _write(staged, new, staging, size, held) if new_rows else StagedRows()
    change_files = _write_new_row_changes(staged, new, staging, size) if new_rows and records else NO_CHANGES
    written = pa.concat_tables([rewritten.adds, inserted.adds])
    log_step("Wrote %s (%s)", counted(len(written), "file"), size_of(written))
    return AppliedChanges(
        adds=pa.concat_tables([marked, written]),
        removes=removes_of(touched, deletion_timestamp=clock(), data_change=True),
        changes=pa.concat_tables([rewritten.changes, change_files]),
        new_files=len(written),
        removed_files=len(touched) - len(marked),
        copied=0 if marks_rows else rewritten.rows_written - effects.updated_in_place,
        written=rewritten.rows_written + inserted.rows,
        **_deletion_vector_counts(touched, marked),
    )


def apply_deletion_vectors(touched: pa.Table, marked: pa.Table, clock: Clock) -> AppliedChanges:
    """The files of a statement that only marks rows in deletion vectors.

    Args:
        touched: The files (``ADD_FILE``) with such rows.
        marked: Those of them that keep rows, with their new deletion vectors.
        clock: Gives the deletion time of the removes.
    """
    return AppliedChanges(
        adds=marked,
        removes=removes_of(touched, deletion_timestamp=clock(), data_change=True),
        new_files=0,
        removed_files=len(touched) - len(marked),
        copied=0,
        written=0,
        **_deletion_vector_counts(touched, marked),
    )


def _deletion_vector_counts(touched: pa.Table, marked: pa.Table) -> dict[str, int]:
    had = touched.filter(touched["deletion_vector"].is_valid())
    updated = marked.filter(pc.is_in(marked["path"], had["path"]))
    return {
        "deletion_vectors_added": len(marked),
        "deletion_vectors_removed": len(had),
        "deletion_vectors_updated": len(updated),
    }


def _records(staged: StagedChanges, effects: RowEffects, touched: pa.Table, *, marks_rows: bool) -> bool:
    """Whether change data files are needed: not for rows deleted by deletion vectors, or with their whole file."""
    if not records_changes(staged.snapshot):
        return False
    return bool(effects.updated) or (not marks_rows and keep_rows(touched, effects.deleted_by_file))


def check_new_rows(
    spark: SparkSession,
    expectations: Sequence[Expectation],
    staged: StagedChanges,
    views: Mapping[str, DataFrame],
    reads: TargetReads,
) -> None:
    """Check the expectations on inserted rows, and on updated rows with their new values.

    Raises:
        ExpectationFailedError: An expectation does not hold.
        ExpectationUnreadableError: An expectation is not valid SQL on these rows.
    """
    if not expectations:
        return
    schema = staged.snapshot.schema
    if staged.clauses.of(ClauseKind.UPDATE, ClauseKind.INSERT):
        new = staged.rows.where(staged.of(ClauseKind.UPDATE, ClauseKind.INSERT)).select(*map(quoted, schema.names))
    else:
        new = spark.createDataFrame([], to_spark(schema))
    check_expectations(spark, expectations, new, views, table=staged.snapshot.table_uri, reads=reads)


def _mark_deleted(staged: StagedChanges, effects: RowEffects, touched: pa.Table, staging: StagingArea) -> pa.Table:
    """The affected files (``ADD_FILE``), less those that become empty, with deletion vectors of all deleted rows."""
    if not len(effects.touched_files):
        return NO_ADDS
    deleted = staged.rows.where(staged.of(ClauseKind.UPDATE, ClauseKind.DELETE)).select(FILE, POSITION)
    only_positions = 1 / len(staged.snapshot.schema.fields)
    ordered = spread_by_file(deleted, FILE, effects.touched_files, touched, share=only_positions).sortWithinPartitions(
        FILE, POSITION
    )
    written = write_deletion_vectors(staged.snapshot, touched, effects.touched_files, ordered, staging)
    return marked_files(touched, effects.touched_files, written)


def _rewrite(
    staged: StagedChanges,
    effects: RowEffects,
    staging: StagingArea,
    clock: Clock,
    *,
    elsewhere: Column,
    writes: bool,
    records: bool,
) -> Rewritten:
    """Rewrite the affected files, joining their rows with the changes of these.

    Args:
        staged: The change of each row.
        effects: Counts of the changes.
        staging: Where new files are written.
        clock: Gives their time.
        elsewhere: Whether an updated row is written to another file.
        writes: Whether to write the files anew, without deleted rows, and with updated rows in place.
        records: Whether to write change data, except for the new values of rows that are written to another file.
    """
    if not len(effects.touched_files) or not (writes or records):
        return Rewritten()
    snapshot = staged.snapshot
    new_values = staged.clauses.updated.without(snapshot.partition_columns).names if writes else ()
    changes: DataFrame | pa.Table
    if staged.here is None or records:
        changes = staged.rows.where(staged.of(ClauseKind.UPDATE, ClauseKind.DELETE)).select(
            F.col(FILE).alias(OUTPUT),
            F.col(POSITION).alias(ROW),
            (staged.of(ClauseKind.DELETE) | elsewhere).alias(DROP),
            *([elsewhere.alias(LIVES_ON)] if records else []),
            *map(quoted, new_values),
        )
    else:
        changes = _changes_here(staged, staged.here, new_values)
    rewrite = FileRewrite(
        snapshot=snapshot,
        inputs=staged.candidates,
        outputs=pa.array(range(len(staged.candidates)), pa.int32()),
        directory=staging.name if writes else None,
        change_directory=staging.changes.name if records else None,
        data_change=True,
    )
    drops_rows = bool(effects.deleted or effects.moved)
    rewritten = rewrite.change(staged.rows.sparkSession, changes, effects.touched_files, drops_rows=drops_rows, clock=clock)
    left = rewritten.rows_read - effects.deleted - effects.moved if writes else 0
    recorded = effects.deleted + effects.updated + (effects.updated_in_place if writes else 0) if records else 0
    for kind, rows, expected in (("", rewritten.rows_written, left), (" of changes", rewritten.change_rows, recorded)):
        if rows != expected:
            detail = f"expected {expected} rows{kind}, but {rows} were written"
            raise StagedFilesError(table=snapshot.table_uri, detail=detail)
    return rewritten


def _changes_here(staged: StagedChanges, rows: pa.Table, new_values: Sequence[str]) -> pa.Table:
    """The changes of rows in their files, for rows that this process holds."""
    changed = rows.filter(staged.clauses.are_of(rows[CLAUSE_INDEX], ClauseKind.UPDATE, ClauseKind.DELETE))
    drops = pc.or_(staged.clauses.are_of(changed[CLAUSE_INDEX], ClauseKind.DELETE), changed[MOVED])
    marks = {OUTPUT: changed[FILE], ROW: changed[POSITION], DROP: drops}
    return pa.table(marks | {name: changed[name] for name in new_values})


def _new_rows_here(staged: StagedChanges, rows: pa.Table, *, marks_rows: bool) -> pa.Table:
    """The rows to be written to files of their own, for rows that this process holds: as ``new`` in ``apply_changes``."""
    clauses, index = staged.clauses, rows[CLAUSE_INDEX]
    elsewhere = clauses.are_of(index, ClauseKind.UPDATE) if marks_rows else rows[MOVED]
    return rows.filter(pc.or_(clauses.are_of(index, ClauseKind.INSERT), elsewhere))


def _write(staged: StagedChanges, new: DataFrame, staging: StagingArea, size: int, held: pa.Table | None) -> StagedRows:
    """Write these complete staged rows, of about ``size`` bytes, to files of their own; updated rows keep their ids.

    ``held`` are the same rows, if this process holds them.
    """
    metadata = staged.snapshot.metadata
    carried = row_id_column(metadata) if staged.has_row_ids else StructType(())
    ids = (F.col(ROW_ID).alias(name) for name in carried.names)
    partitions = materialized_columns(staged.snapshot.schema, staged.snapshot.protocol, metadata)
    extra = StructType((*partitions.fields, *carried.fields))
    rows = new.select(*map(quoted, staged.snapshot.schema.names), *ids)
    if held is not None and carried.fields:
        held = held.append_column(carried.names[0], held[ROW_ID])
    return write_rows(rows, staging, metadata, folder="inserted", extra=extra, size=size, held=held)


def _write_new_row_changes(staged: StagedChanges, new: DataFrame, staging: StagingArea, size: int) -> pa.Table:
    """Write change data for these staged rows, of about ``size`` bytes: inserts, and new values of updated rows."""
    kind = F.when(staged.of(ClauseKind.INSERT), INSERT).otherwise(UPDATE_POSTIMAGE).alias(CHANGE_TYPE)
    rows = new.select(*map(quoted, staged.snapshot.schema.names), kind)
    return write_change_rows(rows, staging, staged.snapshot.metadata, size=size)
