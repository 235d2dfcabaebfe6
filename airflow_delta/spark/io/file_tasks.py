"""How many Python tasks share a number of files, and which rows go to which of them."""

from __future__ import annotations

from math import ceil

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.spark.spark_features import repartition_by_id

_TASK_BYTES = 64 << 20
_BYTES_LIKE_AN_OPENING = 1 << 20
_MOST_ROUNDS = 4
_FEW_FILES = 64
"""So many branches an expression may have for each row."""


def task_count(spark: SparkSession, files: pa.Table, *, share: float = 1.0) -> int:
    """How many tasks share these files (``size`` in bytes), never more than files.

    One for each core where little is read, as a task costs as much as reading some MiB; some for each where it is more, so that
    a slow one does not hold up the rest; and more of them where files are many or large.

    Args:
        spark: The session.
        files: What is read.
        share: The part of their bytes that is read.
    """
    cores = spark.sparkContext.defaultParallelism
    read = (pc.sum(files["size"]).as_py() or 0) * share + len(files) * _BYTES_LIKE_AN_OPENING
    rounds = min(_MOST_ROUNDS, ceil(read / (cores * _TASK_BYTES)) or 1)
    return max(1, min(len(files), max(rounds * cores, int(read // _TASK_BYTES))))


def spread_by_file(rows: DataFrame, column: str, numbers: pa.Array, files: pa.Table, *, share: float = 1.0) -> DataFrame:
    """The rows, those of a file together in one of the partitions that ``task_count`` gives for these files.

    Args:
        rows: Rows about files, computed already: what is left to compute would be done by these tasks.
        column: Name of the column that numbers the file of a row: int, never NULL.
        numbers: The numbers that occur there, ascending: int32.
        files: The files with these numbers (``size`` in bytes).
        share: The part of their bytes that is read.
    """
    tasks = task_count(rows.sparkSession, files, share=share)
    if tasks == 1:
        return rows.coalesce(1)
    # Few files would leave tasks without any, and give two to others, by their numbers.
    place = _rank(column, numbers) if len(numbers) <= _FEW_FILES else F.col(column)
    return repartition_by_id(rows, tasks, place)


def _rank(column: str, numbers: pa.Array) -> Column:
    """The ordinal of a number among these."""
    branches = " ".join(f"WHEN {number} THEN {rank}" for rank, number in enumerate(numbers.to_pylist()))
    return F.expr(f"CASE {column} {branches} END")
