"""The cases: each statement, what plain Spark does in comparison, and the expected rows as SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    DeleteStatement,
    FileSource,
    MergeStatement,
    OptimizeStatement,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write
from benchmarks.spark_ops.inputs import RANGE, SPREAD, data_files

_VECTORS = {"delta.enableDeletionVectors": "true"}
_ONE_PERCENT = "flight % 100 = 7"  # rows all over the table, which no statistics narrow down

Run = Callable[[SparkSession, Path, "Inputs"], Any]
Plain = Callable[[SparkSession, Path, Path], Any]
"""Called with the table and the directory to write to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a case reads: the table before the operation, and the sources by kind."""

    base: Path
    sources: Mapping[str, Path]


def copied_plainly(spark: SparkSession, table: Path, to: Path) -> None:
    """Read the table's files and write all rows to new ones."""
    spark.read.parquet(str(table)).write.mode("overwrite").parquet(str(to))


def scanned_plainly(spark: SparkSession, table: Path, _to: Path) -> None:
    """Read all rows of the table's files."""
    _read(spark.read.parquet(str(table)))


def counted_plainly(spark: SparkSession, table: Path, where: str) -> int:
    """Only count the rows that match a condition."""
    return spark.read.parquet(str(table)).where(where).count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One operation.

    Attributes:
        run: Runs the operation on a copy of the table.
        expected: duckdb SQL over ``base``, ``spread`` and ``range`` for the rows that the table holds afterwards.
        plain: What plain Spark does with the table in comparison.
        read: The columns that decide which rows match, if no file is rewritten.
        where: The condition on these columns, if Spark can count the matching rows alone.
        files: Number of files of the table; the default number when None.
        properties: Properties of the table.
    """

    name: str
    run: Run
    expected: str
    plain: Plain = copied_plainly
    read: tuple[str, ...] = ()
    where: str | None = None
    files: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def _written(mode: str) -> Run:
    def run(spark: SparkSession, table: Path, inputs: Inputs) -> Any:
        source = FileSource(str(inputs.base), format="parquet")
        return write(spark, _log(table), WriteStatement(table=str(table), source=source, mode=mode))

    return run


def _merged(source: str) -> Run:
    def run(spark: SparkSession, table: Path, inputs: Inputs) -> Any:
        rows = FileSource(str(inputs.sources[source]), format="parquet")
        return merge(spark, _log(table), MergeStatement(table=str(table), source=rows, on="target.key = source.key"))

    return run


def _deleted(spark: SparkSession, table: Path, _inputs: Inputs) -> Any:
    return delete(spark, _log(table), DeleteStatement(table=str(table), where=_ONE_PERCENT))


def _updated(spark: SparkSession, table: Path, _inputs: Inputs) -> Any:
    statement = UpdateStatement(table=str(table), assignments={"delay": "delay + 1"}, where=_ONE_PERCENT)
    return update(spark, _log(table), statement)


def _optimized(**how: Any) -> Run:
    def run(spark: SparkSession, table: Path, _inputs: Inputs) -> Any:
        sixteenth = sum(Path(file).stat().st_size for file in data_files(table)) // 16 + 1
        return optimize(spark, _log(table), OptimizeStatement(table=str(table), target_file_size=sixteenth, **how))

    return run


def _scanned(spark: SparkSession, table: Path, _inputs: Inputs) -> None:
    _read(read_table(spark, _log(table).snapshot()))


def _read(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _log(table: Path) -> DeltaLog:
    return DeltaLog.for_table(str(table))


_ROWS = "SELECT * FROM base"
_TWICE = "SELECT * FROM base UNION ALL SELECT * FROM base"
_UPSERTED = "SELECT * FROM base ANTI JOIN {0} USING (key) UNION ALL SELECT * FROM {0}"
_KEPT = f"SELECT * FROM base WHERE NOT ({_ONE_PERCENT})"
_LATER = f"SELECT * REPLACE (CASE WHEN {_ONE_PERCENT} THEN delay + 1 ELSE delay END AS delay) FROM base"

_MERGED_ROWS = {kind: _UPSERTED.format(f'"{kind}"') for kind in (SPREAD, RANGE)}
CASES = (
    Case(name="append", run=_written("append"), expected=_TWICE),
    Case(name="overwrite", run=_written("overwrite"), expected=_ROWS),
    Case(name="merge-spread", run=_merged(SPREAD), expected=_MERGED_ROWS[SPREAD]),
    Case(name="merge-spread-dv", run=_merged(SPREAD), expected=_MERGED_ROWS[SPREAD], read=("key",), properties=_VECTORS),
    Case(name="merge-range", run=_merged(RANGE), expected=_MERGED_ROWS[RANGE]),
    Case(name="delete", run=_deleted, expected=_KEPT),
    Case(name="delete-dv", run=_deleted, expected=_KEPT, read=("flight",), where=_ONE_PERCENT, properties=_VECTORS),
    Case(name="update", run=_updated, expected=_LATER),
    Case(name="compaction", run=_optimized(), expected=_ROWS, files=160),
    Case(name="z-order", run=_optimized(z_order_by=("flight", "delay")), expected=_ROWS),
    Case(name="scan", run=_scanned, expected=_ROWS, plain=scanned_plainly),
)
