"""Files made into rows by Python tasks: which of them a task gets, and what size Spark takes the rows for.

Spark takes what comes out of Python for as large as what goes in. That is the number of a task here, so that Spark would take
every table for next to nothing, and broadcast it. But a range of numbers counts by its length, whatever a filter leaves of it:
the range is as long as to be of the size of the rows, and all but one number for each task are left out before Python sees
them. That costs a nanosecond for eight bytes, as far as it goes.

Workers import this module: it knows no parser of predicates.
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
"""As large as a function that travels to the workers may become; more files take more than one."""
_PLAN_BYTES = 64 << 20
"""Of a plan over Spark Connect, which sends at most 128 MiB."""
_MOST_BYTES = 1 << 30
"""Spark need not know of more, unless the session's threshold is so high that it would broadcast that."""
_MOST_BROADCAST_BYTES = 8 << 30
"""Spark broadcasts no larger table, whatever the threshold: ``BroadcastExchangeExec.MAX_BROADCAST_TABLE_BYTES``."""
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_SIZE = re.compile(r"(\d{1,15})\s*([kmgtp]?)b?", re.IGNORECASE)
_UNITS = " kmgtp"
_NUMBER_BYTES = 8
TASK = "__airflow_delta_task"
"""Column of shared files: the number of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShares:
    """Files dealt out to tasks, as a part of the function that Spark maps over the numbers of the tasks.

    Attributes:
        files: Any columns, and the number of the task, ascending, as bytes.
        stride: How far the numbers of two tasks lie apart where Spark counts them.
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
    """The function that Spark maps over the numbers of the tasks, where the files of one need no others.

    Attributes:
        work: Makes batches of the files of a task.
        shares: The files.
    """

    work: Callable[[pa.Table], Iterable[pa.RecordBatch]]
    shares: FileShares

    def __call__(self, numbers: Batches) -> Batches:
        """The batches of these tasks, one after the other; errors of ours stay what they are."""
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
    """The rows that workers make of files.

    Args:
        spark: The session.
        files: At least one, with the columns that the workers need.
        tasks: For each file the number of the task that gets it, as ``tasks.packed`` numbers them.
        worker: The function that makes rows of shares.
        schema: Of the rows.
        size: How many bytes they have in memory, about: Spark decides by it what it broadcasts. 0 where nothing is decided.
        mark: One column, of which a statement finds the metadata in Spark's plan.
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
    """Of how many bytes may be what the functions share that read these files: over Spark Connect each carries its own copy."""
    return _PLAN_BYTES // (files.nbytes // _FUNCTION_BYTES + 1) if is_connect(spark) else sys.maxsize


def all_files(files: pa.Table) -> tuple[FileShares, pa.RecordBatch]:
    """All files as the share of one task, and the number of that task, for a worker's function in this process."""
    shares = FileShares(files=_as_bytes(files, np.zeros(len(files), np.int64)), stride=1)
    return shares, pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})


def _numbers(spark: SparkSession, tasks: int, size: int) -> tuple[DataFrame, int]:
    """One number for each task, in a partition of its own, which Spark takes for so many bytes; and the distance of two."""
    if size > _MOST_BYTES:  # Spark is asked for its threshold only where it matters: over Spark Connect that is a call
        size = min(size, max(_MOST_BYTES, 2 * min(_broadcast_threshold(spark), _MOST_BROADCAST_BYTES)))
    wanted = size / tasks / _NUMBER_BYTES
    stride = 1 << round(log2(wanted)) if wanted > 1 else 1
    numbers = spark.range(0, tasks * stride, 1, tasks)
    return numbers.where(F.col("id").bitwiseAND(stride - 1) == 0) if stride > 1 else numbers, stride


def _broadcast_threshold(spark: SparkSession) -> int:
    """Up to how many bytes the session broadcasts a side of a join by its size; 0 for none."""
    match = _SIZE.fullmatch(str(spark.conf.get(_THRESHOLD)).strip())
    return int(match[1]) << 10 * _UNITS.index(match[2].lower() or " ") if match else 0


def _bounds(files: pa.Table, tasks: npt.NDArray[np.int64]) -> list[int]:
    """Where to cut the files so that each piece goes into a function; the files of a task stay together."""
    pieces = -(-len(_as_bytes(files, tasks)) // _FUNCTION_BYTES)
    middle = tasks[[len(files) * piece // pieces for piece in range(1, pieces)]]
    return [*dict.fromkeys([0, *np.searchsorted(tasks, middle).tolist(), len(files)])]


def _as_bytes(files: pa.Table, tasks: npt.NDArray[np.int64]) -> bytes:
    return to_ipc(files.append_column(TASK, pa.array(tasks - tasks[0], pa.int32())))
