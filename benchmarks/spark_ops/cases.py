"""What is measured: each statement, what it may take at most, and what plain SQL says that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

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
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.write.write import write
from benchmarks.spark_ops.inputs import RANGE, SPREAD, data_files

_VECTORS = {"delta.enableDeletionVectors": "true"}
_ONE_PERCENT = "flight % 100 = 7"  # of rows all over the table; nothing in the log says which

Run = Callable[[SparkSession, Path, "Inputs"], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a case reads: the table as it was before, and the sources by their kind."""

    base: Path
    sources: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One operation.

    Attributes:
        target: At most so many times plain Spark's reading and writing of the table.
        delta: What Delta-Spark 4.4 took on a machine like this; None where nobody measured.
        run: Does it to the copy of the table that it is given.
        expected: SQL of duckdb over ``base``, ``spread`` and ``range`` that says which rows are there afterwards.
        files: Files of the table; those of the others when None.
        properties: Of the table.
    """

    name: str
    target: float
    delta: float | None
    run: Run
    expected: str
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


def _log(table: Path) -> DeltaLog:
    return DeltaLog.for_table(str(table))


_ROWS = "SELECT * FROM base"
_TWICE = "SELECT * FROM base UNION ALL SELECT * FROM base"
_UPSERTED = "SELECT * FROM base ANTI JOIN {0} USING (key) UNION ALL SELECT * FROM {0}"
_KEPT = f"SELECT * FROM base WHERE NOT ({_ONE_PERCENT})"
_LATER = f"SELECT * REPLACE (CASE WHEN {_ONE_PERCENT} THEN delay + 1 ELSE delay END AS delay) FROM base"

CASES = (
    Case(name="append", target=1.10, delta=1.30, run=_written("append"), expected=_TWICE),
    Case(name="overwrite", target=1.10, delta=None, run=_written("overwrite"), expected=_ROWS),
    Case(name="merge-spread", target=1.2, delta=3.26, run=_merged(SPREAD), expected=_UPSERTED.format(SPREAD)),
    Case(
        name="merge-spread-dv",
        target=0.5,
        delta=1.20,
        run=_merged(SPREAD),
        expected=_UPSERTED.format(SPREAD),
        properties=_VECTORS,
    ),
    Case(name="merge-range", target=0.35, delta=0.90, run=_merged(RANGE), expected=_UPSERTED.format('"range"')),
    Case(name="delete", target=0.9, delta=1.65, run=_deleted, expected=_KEPT),
    Case(name="delete-dv", target=0.25, delta=0.53, run=_deleted, expected=_KEPT, properties=_VECTORS),
    Case(name="update", target=1.1, delta=2.14, run=_updated, expected=_LATER),
    Case(name="compaction", target=0.9, delta=2.77, run=_optimized(), expected=_ROWS, files=160),
    Case(name="z-order", target=2.0, delta=4.02, run=_optimized(z_order_by=("flight", "delay")), expected=_ROWS),
)
