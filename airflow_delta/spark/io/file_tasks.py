"""Distributes files, and rows about files, over tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.tasks import UNKNOWN_CORES, file_work, in_tasks, packed, task_count
from airflow_delta.spark.session import cores
from airflow_delta.spark.spark_features import repartition_by_id

_FEW_FILES = 64
"""Most branches of an expression that is evaluated on each row."""


def file_task_count(spark: SparkSession, files: pa.Table, *, share: float = 1.0) -> int:
    """How many tasks share these files (``size`` in bytes), of whose bytes the part ``share`` is read."""
    if len(files) == 1:  # avoids asking a server for the number of cores
        return 1
    return task_count(file_work(files["size"], share).sum(), len(files), cores(spark))


def tasks_of_files(spark: SparkSession, files: pa.Table, *, share: float = 1.0) -> npt.NDArray[np.int64]:
    """For each file (``size`` in bytes), of whose bytes the part ``share`` is read, the number of its task: see ``packed``."""
    return packed(file_work(files["size"], share), file_task_count(spark, files, share=share))


def tasks_of_units(spark: SparkSession, units: int, work: float) -> npt.NDArray[np.int64]:
    """For each of so many units, which take about ``work`` bytes in all, the number of its task: see ``packed``."""
    return packed(np.full(units, work / max(1, units)), task_count(work, units, cores(spark)))


def share_of(columns: StructType, schema: StructType) -> float:
    """The part of a table's bytes that some of its columns are, as far as their number shows."""
    return len(columns.fields) / max(1, len(schema.fields))


def described_shares(files: pa.Table) -> list[Sequence[str]]:
    """The files, as JSON of all columns except ``size`` (bytes), in shares for tasks of a Python data source.

    The planner of a data source has no session, so the number of cores is unknown.
    """
    work = file_work(files["size"])
    described = [
        json.dumps({**file, "partition_values": dict(file["partition_values"] or ())})
        for file in files.drop_columns("size").to_pylist()
    ]
    return in_tasks(described, work, task_count(work.sum(), len(files), UNKNOWN_CORES))


def spread_by_file(rows: DataFrame, column: str, numbers: pa.Array, files: pa.Table, *, share: float = 1.0) -> DataFrame:
    """The rows, distributed so that those of a file are together, over as many partitions as ``file_task_count`` gives.

    Args:
        rows: Rows about files, already computed, as otherwise these tasks would compute them.
        column: Name of the column with the number of a row's file: int, never NULL.
        numbers: The numbers that occur, ascending: int32.
        files: The files with these numbers (``size`` in bytes).
        share: The part of their bytes that is read.
    """
    tasks = file_task_count(rows.sparkSession, files, share=share)
    if tasks == 1:
        return rows.coalesce(1)
    # By their numbers, few files would be distributed unevenly over the tasks.
    place = _rank(column, numbers) if len(numbers) <= _FEW_FILES else F.col(column)
    return repartition_by_id(rows, tasks, place)


def _rank(column: str, numbers: pa.Array) -> Column:
    """The index of a number among these."""
    branches = " ".join(f"WHEN {number} THEN {rank}" for rank, number in enumerate(numbers.to_pylist()))
    return F.expr(f"CASE {column} {branches} END")
