"""Samples rows in Spark's Python workers, reading only the columns to cluster by.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.map_files import FileShares
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import with_typed_errors
from airflow_delta.spark.optimize.ordered_values import OrderedColumn
from airflow_delta.spark.rewrite.rewrite_worker import INPUT_COLUMNS, copied_rows

GROUP = "group"
"""Column of files: number of the group that the file is clustered in."""
STEP = "step"
"""Column of files: one of this many rows is sampled."""
SEED = "seed"
"""Column of files: a random seed for sampling the file's rows."""

SAMPLE = pa.schema([("group", pa.int32()), ("content", pa.binary())])
SAMPLE_DDL = "`group` int, content binary"

Paths = tuple[tuple[str, ...], ...]
"""Columns, as paths of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWorker:
    """Reads files, and returns one ``SAMPLE`` row for each piece of a file.

    Attributes:
        table: The table of the files.
        columns: The table's top-level columns that contain the paths.
        paths: The columns to cluster by.
        shares: ``INPUT_COLUMNS``, ``GROUP``, ``STEP`` and ``SEED``.
    """

    table: TableFiles
    columns: StructType
    paths: Paths
    shares: FileShares

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition of task numbers."""
        return with_typed_errors(self._sampled(batches))

    def _sampled(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for files in self.shares.of(batches):
            for number in range(len(files)):
                file = files.slice(number, 1)
                pieces = self._pieces(file, np.random.default_rng(file[SEED][0].as_py()))
                samples = [{"group": file[GROUP][0].as_py(), "content": packed(piece)} for piece in pieces]
                yield pa.RecordBatch.from_pylist(samples, SAMPLE)

    def _pieces(self, file: pa.Table, random: np.random.Generator) -> Iterator[list[OrderedColumn]]:
        step = file[STEP][0].as_py()
        for batch, live in copied_rows(self.table, self.columns, None, file.select(INPUT_COLUMNS)):
            there = batch if live is None else batch.filter(live)
            chosen = np.flatnonzero(random.random(there.num_rows) * step < 1)
            if len(chosen):
                rows = there.take(pa.array(chosen))
                yield [OrderedColumn.of(rows, path) for path in self.paths]


def packed(columns: Sequence[OrderedColumn]) -> bytes:
    """Columns of some rows, serialized."""
    buffer = io.BytesIO()
    arrays = [array for column in columns for array in (column.values, column.is_null)]
    np.savez(buffer, *arrays)  # NumPy before 2.2 takes every keyword as the name of an array
    return buffer.getvalue()


def unpacked(contents: Sequence[bytes]) -> list[OrderedColumn]:
    """The columns of all rows, from at least one piece that ``packed`` serialized."""
    pieces = [[*np.load(io.BytesIO(content), allow_pickle=False).values()] for content in contents]
    arrays = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return [OrderedColumn(values=values, is_null=is_null) for values, is_null in zip(arrays[::2], arrays[1::2], strict=True)]
