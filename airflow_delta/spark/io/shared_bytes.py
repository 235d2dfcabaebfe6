"""What many functions of workers refer to, and what reaches each worker once: bytes, and files of a table.

Workers import this module: it knows nothing of what a statement caches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_delta.spark.jvm import is_connect

_CARRIED_BYTES = 1 << 20
"""As many travel within a function, as Spark sends one that is larger as a broadcast variable."""
_BATCH_FILES = 4096
"""A worker decodes so many files at a time, of which it may need one."""

AtEnd: TypeAlias = Callable[[Callable[[], object]], None]
"""Takes what is to be called when the statement ends: ``RowCache.at_end``."""


class SharedBytes(Protocol):
    """Bytes that a function refers to: a broadcast variable, or the bytes themselves."""

    @property
    def value(self) -> bytes:
        """The bytes."""


@dataclass(frozen=True, slots=True)
class CarriedBytes:
    """Bytes that travel within the function."""

    value: bytes


def share(spark: SparkSession, content: bytes, at_end: AtEnd) -> SharedBytes:
    """The bytes, for functions that workers run; over Spark Connect, which has no broadcast variables, each carries them.

    Args:
        spark: The session.
        content: The bytes.
        at_end: Calls what it is given at the statement's end: a broadcast variable lies in a file of the driver until then.
    """
    if is_connect(spark) or len(content) <= _CARRIED_BYTES:
        return CarriedBytes(content)
    shared = spark.sparkContext.broadcast(content)
    at_end(shared.destroy)
    return shared


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFiles:
    """Numbered files, of which each worker looks up the few that it needs.

    Attributes:
        content: They, as an Arrow file of batches.
        number: Name of the column of their numbers, ascending; several files may have one.
        first_numbers: That of the first file of each batch.
    """

    content: SharedBytes
    number: str
    first_numbers: tuple[int, ...]

    def opened(self) -> FileLookup:
        """In a worker: looks files up."""
        return FileLookup(self)


class FileLookup:
    """Finds files by their number, and decodes no more than the batches around it."""

    def __init__(self, files: SharedFiles) -> None:
        """Nothing is decoded yet.

        Args:
            files: Those to find.
        """
        self._files = files
        self._reader = pa.ipc.open_file(pa.BufferReader(files.content.value))
        self._batch = lru_cache(maxsize=2)(self._reader.get_batch)  # numbers are asked for in their order, mostly

    def of(self, number: int) -> pa.Table:
        """All files of this number, in their order; none where no file has it."""
        first_numbers = self._files.first_numbers
        first = max(bisect_left(first_numbers, number) - 1, 0)  # the batch before may end with files of the number
        found = [self._within(self._batch(batch), number) for batch in range(first, bisect_right(first_numbers, number))]
        return pa.Table.from_batches(found, schema=self._reader.schema)

    def _within(self, batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        start, end = np.searchsorted(batch.column(self._files.number).to_numpy(), [number, number + 1])
        return batch.slice(start, end - start)


def share_files(spark: SparkSession, files: pa.Table, number: str, at_end: AtEnd) -> SharedFiles:
    """The files, for functions that workers run.

    Args:
        spark: The session.
        files: Any columns, in the order of their numbers.
        number: Name of the column of their numbers: int32 without NULL.
        at_end: As ``share`` takes it.
    """
    batches = files.combine_chunks().to_batches(max_chunksize=_BATCH_FILES)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, files.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return SharedFiles(
        content=share(spark, sink.getvalue().to_pybytes(), at_end),
        number=number,
        first_numbers=tuple(batch.column(number)[0].as_py() for batch in batches),
    )
