"""Counts the effects of a statement on each file, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.errors import ConstraintViolatedError, MultipleSourceRowsMatchedError
from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.wording import counted
from airflow_delta.spark.constraints.not_null import violations
from airflow_delta.spark.constraints.violations import row_text, row_violations
from airflow_delta.spark.dml.clauses import ClauseKind
from airflow_delta.spark.dml.position_scan import FILE, ROW, ROW_ID
from airflow_delta.spark.dml.staged_changes import CLAUSE_INDEX, MOVED, StagedChanges
from airflow_delta.spark.io.row_width import row_bytes, row_width, stored_row_bytes
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.statement.steps import log_step

_NOT_MATCHED_BY_SOURCE, _BROKEN, _BYTES = "not_matched_by_source_", "broken_", "bytes"
_MOST_COMPRESSED = 4
"""Assumed greatest compression, from memory to file, of values if no file shows the real one."""
_CHANGES = (ClauseKind.UPDATE, ClauseKind.DELETE)
_MARKS = (FILE, ROW, CLAUSE_INDEX, MOVED, ROW_ID)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowEffects:
    """How many rows of the target are inserted, updated and deleted.

    Attributes:
        matched_files: Indexes of the files with a matching row.
        touched_files: Indexes of the files with a changed row.
        deleted_by_file: Number of rows deleted from each touched file.
        updated: Rows updated, including moved ones.
        moved: Rows updated into another partition.
        row_bytes: Approximate bytes that an inserted or updated row takes in a new file: as in the table's files, but at least
            a quarter of its size in memory; its full size in memory if the files show nothing.
        updated_not_matched_by_source: Updated rows that no source row matches.
        deleted_not_matched_by_source: Deleted rows that no source row matches.
    """

    matched_files: pa.Array
    touched_files: pa.Array
    deleted_by_file: pa.Array
    inserted: int
    updated: int
    deleted: int
    moved: int
    row_bytes: float
    updated_not_matched_by_source: int = 0
    deleted_not_matched_by_source: int = 0

    @property
    def updated_in_place(self) -> int:
        """Updated rows that stay in their partition."""
        return self.updated - self.moved

    @property
    def is_nothing(self) -> bool:
        """Whether the table does not change."""
        return not self.inserted and not len(self.touched_files)


def count_effects(staged: StagedChanges, *, are_matches_unique: bool) -> RowEffects:
    """Count, in the pass that computes the staged rows; the query returns one row for each file.

    Args:
        staged: The change of each row.
        are_matches_unique: Whether certainly no target row has several matches.

    Raises:
        ConstraintViolatedError: An updated row violates a constraint of the table.
        MultipleSourceRowsMatchedError: Several source rows match a target row, whether or not a clause applies to them. As in
            Delta, this is allowed for a single unconditional delete.
    """
    snapshot, is_updated, updated = staged.snapshot, staged.of(ClauseKind.UPDATE), staged.clauses.updated
    constraints: dict[str, Column] = {}
    if updated.fields:
        constraints = violations(updated, snapshot.partition_columns)
        spark = staged.rows.sparkSession
        constraints |= row_violations(spark, snapshot.metadata, snapshot.schema, updated, table=snapshot.table_uri)
    columns = staged.columns.without(snapshot.partition_columns)
    stored = stored_row_bytes(
        staged.candidates if len(staged.candidates) else snapshot.files(columns=["size", NUM_RECORDS.name])
    )
    if staged.here is None or constraints:
        violated = [F.when(is_updated, broken) for broken in constraints.values()]
        sizes = row_bytes(columns) if staged.writes_new_rows else None
        files = _counted(staged, violated, sizes, are_matches_unique=are_matches_unique)
    else:
        files = _counted_here(staged, staged.here)
    matched = files.filter(files[FILE].is_valid())
    deleted, surplus = matched[ClauseKind.DELETE], pc.subtract(matched["pairs"], matched["rows"])
    if staged.clauses.tolerates_several_matches:
        deleted = pc.subtract(deleted, surplus) if staged.clauses.deletes_matches else deleted
    elif pc.any(pc.greater(surplus, 0)).as_py():
        raise _several_matches(staged)
    for at, (constraint, broken) in enumerate(constraints.items()):
        if broken_rows := _total(matched[f"{_BROKEN}{at}"]):
            example = staged.rows.where(is_updated & broken).select(row_text(updated.names)).first()[0]
            raise ConstraintViolatedError(table=snapshot.table_uri, constraint=constraint, rows=broken_rows, example=example)
    is_touched = pc.or_(pc.greater(matched[ClauseKind.UPDATE], 0), pc.greater(deleted, 0))
    new_rows = _total(files[ClauseKind.INSERT]) + _total(files[ClauseKind.UPDATE])
    in_memory = _total(files[_BYTES]) / max(1, new_rows) if _BYTES in files.column_names else 0
    effects = RowEffects(
        matched_files=matched[FILE].combine_chunks(),
        touched_files=matched[FILE].filter(is_touched).combine_chunks(),
        deleted_by_file=deleted.filter(is_touched).combine_chunks(),
        inserted=_total(files[ClauseKind.INSERT]),
        updated=_total(files[ClauseKind.UPDATE]),
        deleted=_total(deleted),
        moved=_total(files["moved"]),
        row_bytes=max(stored, in_memory / _MOST_COMPRESSED) if stored else in_memory or row_width(columns),
        updated_not_matched_by_source=_total(files[f"{_NOT_MATCHED_BY_SOURCE}{ClauseKind.UPDATE}"]),
        deleted_not_matched_by_source=_total(files[f"{_NOT_MATCHED_BY_SOURCE}{ClauseKind.DELETE}"]),
    )
    log_step(
        "Rows: %s to update, %s to delete, %s to insert; %s to change",
        effects.updated,
        effects.deleted,
        effects.inserted,
        counted(len(effects.touched_files), "file"),
    )
    return effects


def _counted(staged: StagedChanges, violated: Sequence[Column], sizes: Column | None, *, are_matches_unique: bool) -> pa.Table:
    """For each file, the number of rows in pairs, per clause, and violating a constraint; NULL counts as a file.

    Also the bytes of inserted and updated rows, if ``sizes`` gives the size of each row.
    """
    new = staged.of(ClauseKind.INSERT, ClauseKind.UPDATE)
    counted = staged.rows.groupBy(FILE).agg(
        F.count(ROW).alias("pairs"),
        (F.count(ROW) if are_matches_unique else F.count_distinct(ROW)).alias("rows"),
        *(F.count_if(staged.of(kind)).alias(kind.value) for kind in ClauseKind),
        F.count_if(MOVED).alias("moved"),
        *(F.count_if(staged.not_matched_by_source(kind)).alias(f"{_NOT_MATCHED_BY_SOURCE}{kind}") for kind in _CHANGES),
        *(F.count_if(broken).alias(f"{_BROKEN}{at}") for at, broken in enumerate(violated)),
        *([] if sizes is None else [F.sum(F.when(new, sizes)).alias(_BYTES)]),
    )
    with typed_worker_errors():
        return counted.toArrow().sort_by(FILE)


def _counted_here(staged: StagedChanges, rows: pa.Table) -> pa.Table:
    """As ``_counted``, for rows that this process holds, without constraints."""
    are_of = partial(staged.clauses.are_of, rows[CLAUSE_INDEX])
    marks = {kind.value: are_of(kind) for kind in ClauseKind} | {"moved": rows[MOVED]}
    marks |= {f"{_NOT_MATCHED_BY_SOURCE}{kind}": are_of(kind, not_matched_by_source=True) for kind in _CHANGES}
    ones = {name: is_marked.cast(pa.int64()) for name, is_marked in marks.items()}
    grouped = pa.table({FILE: rows[FILE], ROW: rows[ROW], **ones}).group_by(FILE)
    counted = grouped.aggregate([(ROW, "count"), (ROW, "count_distinct"), *((name, "sum") for name in marks)])
    return counted.rename_columns([FILE, "pairs", "rows", *marks]).sort_by(FILE)


def _total(counts: pa.ChunkedArray) -> int:
    return pc.sum(counts).as_py() or 0


def _several_matches(staged: StagedChanges) -> MultipleSourceRowsMatchedError:
    several = staged.rows.where(F.col(FILE).isNotNull()).groupBy(FILE, ROW).count().where("count > 1")
    first = several.first()
    path = staged.candidates["path"][first[FILE]]
    pair = staged.rows.where((F.col(FILE) == first[FILE]) & (F.col(ROW) == first[ROW])).drop(*_MARKS).first()
    values = ", ".join(f"{name} = {value}" for name, value in pair.asDict().items() if value is not None)
    example = f"row {first[ROW]} of {path}, matched by {first['count']} rows" + (f", one with {values}" if values else "")
    return MultipleSourceRowsMatchedError(table=staged.snapshot.table_uri, rows=several.count(), example=example)
