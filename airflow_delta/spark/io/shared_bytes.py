"""Data that many functions of workers share, and that is sent to each worker only once: bytes, and files of a table.

Workers import this module, so it does not import what statements cache.
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
"""Up to this size, bytes are sent within a function; Spark sends larger functions as broadcast variables."""
_BATCH_FILES = 4096
"""Files that a worker decodes at a time, although it may need only one."""

AtEnd: TypeAlias = Callable[[Callable[[], object]], None]
"""Registers a function to call when the statement ends: ``RowCache.at_end``."""


class SharedBytes(Protocol):
    """Bytes that a function refers to: in a broadcast variable, or within the function."""

    @property
    def value(self) -> bytes:
        """The bytes."""


@dataclass(frozen=True, slots=True)
class CarriedBytes:
    """Bytes that are sent within the function."""

    value: bytes


def share(spark: SparkSession, content: bytes, at_end: AtEnd) -> SharedBytes:
    """Share the bytes between functions of workers; with Spark Connect, which lacks broadcast variables, each carries them.

    Args:
        spark: The session.
        content: The bytes.
        at_end: Registers the cleanup at the statement's end: until then, a broadcast variable is a file on the driver.
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
        content: The files, as an Arrow IPC file of batches.
        number: Name of the column with their numbers, ascending; several files may have the same number.
        first_numbers: The number of the first file in each batch.
    """

    content: SharedBytes
    number: str
    first_numbers: tuple[int, ...]

    def opened(self) -> FileLookup:
        """In a worker: the lookup of files."""
        return FileLookup(self)


class FileLookup:
    """Finds files by number, decoding only the batches that contain them."""

    def __init__(self, files: SharedFiles) -> None:
        """Nothing is decoded yet.

        Args:
            files: The files to search.
        """
        self._files = files
        self._reader = pa.ipc.open_file(pa.BufferReader(files.content.value))
        self._batch = lru_cache(maxsize=2)(self._reader.get_batch)  # numbers are mostly requested in order

    def of(self, number: int) -> pa.Table:
        """All files with this number, in order; empty if there are none."""
        first_numbers = self._files.first_numbers
        first = max(bisect_left(first_numbers, number) - 1, 0)  # the batch before may end with files of this number
        found = [self._within(self._batch(batch), number) for batch in range(first, bisect_right(first_numbers, number))]
        return pa.Table.from_batches(found, schema=self._reader.schema)

    def _within(self, batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        start, end = np.searchsorted(batch.column(self._files.number).to_numpy(), [number, number + 1])
        return batch.slice(start, end - start)


def share_files(spark: SparkSession, files: pa.Table, number: str, at_end: AtEnd) -> SharedFiles:
    """Share the files between functions of workers.

    Args:
        spark: The session.
        files: Any columns, sorted by their numbers.
        number: Name of the column with their numbers: int32 without NULL.
        at_end: As of ``share``.
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
