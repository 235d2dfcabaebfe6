"""What a MERGE does to which file, counted before anything is written."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.errors import MultipleSourceRowsMatchedError
from airflow_delta.spark.merge.clauses import BoundClauses, ClauseKind
from airflow_delta.spark.merge.match import CHOICE, FILE, MOVED, ROW
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


def count_effects(
    staged: DataFrame, candidates: pa.Table, clauses: BoundClauses, source: MergeSource, *, table: str
) -> MergeEffects:
    """Count, in one pass over the staged rows; one row of the answer is one file.

    Args:
        staged: As ``match.stage`` made them.
        candidates: The files that their ordinals count.
        clauses: The statement's.
        source: Tells whether several matches are possible at all.
        table: URI of the target, for the error.

    Raises:
        MultipleSourceRowsMatchedError: Several source rows match a target row, whether or not a clause applies to them; a single
            unconditional delete does not mind (facts: Delta does the same).
    """
    choice = F.col(CHOICE)
    counted = staged.groupBy(FILE).agg(
        F.count(ROW).alias("pairs"),
        (F.count(ROW) if source.are_keys_unique else F.count_distinct(ROW)).alias("rows"),
        *(F.count_if(clauses.is_of(choice, kind)).alias(kind.value) for kind in ClauseKind),
        F.count_if(MOVED).alias("moved"),
    )
    files = counted.toArrow().to_pylist()
    matched = [each for each in files if each[FILE] is not None]
    if not clauses.tolerates_several_matches and any(each["pairs"] > each["rows"] for each in matched):
        raise _several_matches(staged, candidates, table)
    if clauses.tolerates_several_matches:
        for each in matched:
            each[ClauseKind.DELETE] = min(each[ClauseKind.DELETE], each["rows"])
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


def _several_matches(staged: DataFrame, candidates: pa.Table, table: str) -> MultipleSourceRowsMatchedError:
    several = staged.where(F.col(FILE).isNotNull()).groupBy(FILE, ROW).count().where("count > 1")
    example = several.first()
    path = candidates["path"][example[FILE]]
    values = staged.where((F.col(FILE) == example[FILE]) & (F.col(ROW) == example[ROW])).drop(FILE, ROW, CHOICE, MOVED).first()
    shown = ", ".join(f"{name}={value}" for name, value in values.asDict().items() if value is not None)
    text = f"row {example[ROW]} of {path}, which {example['count']} source rows match" + (
        f", one with {shown}" if shown else ""
    )
    return MultipleSourceRowsMatchedError(table=table, rows=several.count(), example=text)
