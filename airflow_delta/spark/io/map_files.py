"""Turns files into rows in Python tasks: which files a task gets, and what size Spark assumes for the rows.

Spark assumes that the output of Python code is as large as its input. Here the input is just a task number, so Spark would take
every table for tiny, and broadcast it. But for a range of numbers, the size estimate depends on its length, regardless of
filters on it: so the range is made as long as needed for the size of the rows, and all numbers but one for each task are
filtered out before Python sees them. That costs a nanosecond for each eight bytes of assumed size.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.spark.folded import folded
from airflow_delta.spark.io.worker_values import from_ipc, to_ipc, with_typed_errors
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.worker_code import map_in_arrow

Batches: TypeAlias = Iterator[pa.RecordBatch]

_FUNCTION_BYTES = 4 << 20
"""Most bytes of a function that is sent to workers; for more files, several functions are used."""
_PLAN_BYTES = 64 << 20
"""Most bytes of a plan of Spark Connect, which can send 128 MiB."""
_MOST_BYTES = 1 << 30
"""Spark need not know of larger sizes, unless its broadcast threshold is even higher."""
_MOST_BROADCAST_BYTES = 8 << 30
"""Spark never broadcasts a larger table: ``BroadcastExchangeExec.MAX_BROADCAST_TABLE_BYTES``."""
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_SIZE = re.compile(r"(\d{1,15})\s*([kmgtp]?)b?", re.IGNORECASE)
_UNITS = " kmgtp"
_NUMBER_BYTES = 8
TASK = "__airflow_delta_task"
"""Column of shared files: the number of the task that gets the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShares:
    """Files distributed over tasks, as a part of the function that Spark maps over task numbers.

    Attributes:
        files: Any columns, and the number of the task, ascending; serialized.
        stride: Difference between the range numbers of two consecutive tasks.
    """

    files: bytes
    stride: int

    def of(self, numbers: Batches) -> Iterator[pa.Table]:
        """In a worker: the files of each of these tasks."""
        files = from_ipc(self.files)
        tasks = files[TASK].to_numpy()
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                first, end = np.searchsorted(tasks, [number // self.stride, number // self.stride + 1])
                yield files.slice(first, end - first).drop_columns(TASK)


@dataclass(frozen=True, slots=True)
class PerTask:
    """The function that Spark maps over task numbers, if tasks only need their own files.

    Attributes:
        work: Makes batches from the files of a task.
        shares: The files.
    """

    work: Callable[[pa.Table], Iterable[pa.RecordBatch]]
    shares: FileShares

    def __call__(self, numbers: Batches) -> Batches:
        """The batches of these tasks, one task after the other; this package's errors keep their types."""
        return with_typed_errors(batch for files in self.shares.of(numbers) for batch in self.work(files))


def map_files(
    spark: SparkSession,
    files: pa.Table,
    tasks: npt.NDArray[np.int64],
    worker: Callable[[FileShares], Callable[[Batches], Batches]],
    schema: spark_types.StructType | str,
    *,
    size: int = 0,
    mark: spark_types.StructType | None = None,
) -> DataFrame:
    """The rows that workers make from files.

    Args:
        spark: The session.
        files: At least one file, with the columns that the workers need.
        tasks: For each file, the number of its task, as ``tasks.packed`` numbers them.
        worker: Creates the function that turns shares into rows.
        schema: Schema of the rows.
        size: Approximate bytes of the rows in memory, by which Spark decides whether to broadcast them. 0 if irrelevant.
        mark: One column, whose metadata statements find in Spark's plan.
    """
    frames: list[DataFrame] = []
    for first, end in pairwise(_bounds(files, tasks)):
        count = int(tasks[end - 1] - tasks[first]) + 1
        numbers, stride = _numbers(spark, count, size * (end - first) // len(files))
        if mark is not None and not frames:
            numbers = numbers.unionAll(spark.createDataFrame(pa.table({mark.names[0]: pa.array([], pa.int64())}), mark))
        shares = FileShares(files=_as_bytes(files.slice(first, end - first), tasks[first:end]), stride=stride)
        frames.append(map_in_arrow(numbers, worker(shares), schema))
    return folded(DataFrame.unionAll, frames)


def shareable_bytes(spark: SparkSession, files: pa.Table) -> int:
    """Most bytes shared by the functions that read these files; with Spark Connect, each function carries its own copy."""
    return _PLAN_BYTES // (files.nbytes // _FUNCTION_BYTES + 1) if is_connect(spark) else sys.maxsize


def all_files(files: pa.Table) -> tuple[FileShares, pa.RecordBatch]:
    """All files as the share of one task, with the task number, to run a worker's function in this process."""
    shares = FileShares(files=_as_bytes(files, np.zeros(len(files), np.int64)), stride=1)
    return shares, pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})


def _numbers(spark: SparkSession, tasks: int, size: int) -> tuple[DataFrame, int]:
    """One number for each task, in its own partition, with an assumed size for Spark; and the stride between numbers."""
    if size > _MOST_BYTES:  # only then is the threshold read: with Spark Connect that is a call
        size = min(size, max(_MOST_BYTES, 2 * min(_broadcast_threshold(spark), _MOST_BROADCAST_BYTES)))
    wanted = size / tasks / _NUMBER_BYTES
    stride = 1 << round(log2(wanted)) if wanted > 1 else 1
    numbers = spark.range(0, tasks * stride, 1, tasks)
    return numbers.where(F.col("id").bitwiseAND(stride - 1) == 0) if stride > 1 else numbers, stride


def _broadcast_threshold(spark: SparkSession) -> int:
    """Bytes up to which the session broadcasts a side of a join by its size; 0 for never."""
    match = _SIZE.fullmatch(str(spark.conf.get(_THRESHOLD)).strip())
    return int(match[1]) << 10 * _UNITS.index(match[2].lower() or " ") if match else 0


def _bounds(files: pa.Table, tasks: npt.NDArray[np.int64]) -> list[int]:
    """Where to cut the files so that each piece fits into a function; the files of a task stay together."""
    pieces = -(-len(_as_bytes(files, tasks)) // _FUNCTION_BYTES)
    middle = tasks[[len(files) * piece // pieces for piece in range(1, pieces)]]
    return [*dict.fromkeys([0, *np.searchsorted(tasks, middle).tolist(), len(files)])]


def _as_bytes(files: pa.Table, tasks: npt.NDArray[np.int64]) -> bytes:
    return to_ipc(files.append_column(TASK, pa.array(tasks - tasks[0], pa.int32())))
