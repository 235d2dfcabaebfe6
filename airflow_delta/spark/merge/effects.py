"""What a MERGE does to which file, counted before anything is written."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.errors import MultipleSourceRowsMatchedError
from airflow_delta.spark.merge.clauses import ClauseKind
from airflow_delta.spark.merge.match import CHOICE, MOVED, StagedChanges
from airflow_delta.spark.merge.position_scan import FILE, ROW
from airflow_delta.spark.merge.source import MergeSource


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeEffects:
    """How many rows of the target are inserted, updated, deleted.

    Attributes:
        matched_files: Ordinals of the files in which a row matches.
        touched_files: Ordinals of those in which a row changes.
        updated: Rows updated, moved ones included.
        moved: Rows updated into another partition.
        source_rows: Rows of the source.
    """

    matched_files: pa.Array
    touched_files: pa.Array
    inserted: int
    updated: int
    deleted: int
    moved: int
    source_rows: int

    @property
    def updated_in_place(self) -> int:
        """Rows whose file stays in its partition."""
        return self.updated - self.moved

    @property
    def is_nothing(self) -> bool:
        """Whether the table stays as it is."""
        return not self.inserted and not len(self.touched_files)

    def metrics(self) -> dict[str, int]:
        """By Delta's names."""
        return {
            "numSourceRows": self.source_rows,
            "numTargetRowsInserted": self.inserted,
            "numTargetRowsUpdated": self.updated,
            "numTargetRowsDeleted": self.deleted,
            "numTargetRowsMatchedUpdated": self.updated,
            "numTargetRowsMatchedDeleted": self.deleted,
            "numTargetFilesRemoved": len(self.touched_files),
        }


def count_effects(staged: StagedChanges, source: MergeSource) -> MergeEffects:
    """Count, in one pass over the staged rows; one row of the answer is one file.

    Args:
        staged: What happens to which row.
        source: Tells whether a target row can have several matches at all.

    Raises:
        MultipleSourceRowsMatchedError: Several source rows match a target row, whether or not a clause applies to them. As in
            Delta, a single unconditional delete does not mind.
    """
    counted = staged.rows.groupBy(FILE).agg(
        F.count(ROW).alias("pairs"),
        (F.count(ROW) if source.are_keys_unique else F.count_distinct(ROW)).alias("rows"),
        *(F.count_if(staged.of(kind)).alias(kind.value) for kind in ClauseKind),
        F.count_if(MOVED).alias("moved"),
    )
    files = counted.toArrow().to_pylist()
    matched = [each for each in files if each[FILE] is not None]
    if staged.clauses.tolerates_several_matches:
        for each in matched:
            each[ClauseKind.DELETE] = min(each[ClauseKind.DELETE], each["rows"])
    elif any(each["pairs"] > each["rows"] for each in matched):
        raise _several_matches(staged)
    touched = [each for each in matched if each[ClauseKind.UPDATE] or each[ClauseKind.DELETE]]
    totals = {name: sum(each[name] for each in files) for name in (*ClauseKind, "moved")}
    return MergeEffects(
        matched_files=pa.array([each[FILE] for each in matched], pa.int32()),
        touched_files=pa.array([each[FILE] for each in touched], pa.int32()),
        inserted=totals[ClauseKind.INSERT],
        updated=totals[ClauseKind.UPDATE],
        deleted=totals[ClauseKind.DELETE],
        moved=totals["moved"],
        source_rows=source.rows,
    )


def _several_matches(staged: StagedChanges) -> MultipleSourceRowsMatchedError:
    several = staged.rows.where(F.col(FILE).isNotNull()).groupBy(FILE, ROW).count().where("count > 1")
    first = several.first()
    path = staged.candidates["path"][first[FILE]]
    pair = staged.rows.where((F.col(FILE) == first[FILE]) & (F.col(ROW) == first[ROW])).drop(FILE, ROW, CHOICE, MOVED).first()
    values = ", ".join(f"{name} = {value}" for name, value in pair.asDict().items() if value is not None)
    example = f"row {first[ROW]} of {path}, matched by {first['count']} rows" + (f", one with {values}" if values else "")
    return MultipleSourceRowsMatchedError(table=staged.snapshot.table_uri, rows=several.count(), example=example)
