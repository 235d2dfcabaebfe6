"""The shuffle for clustering: moves rows from their old files to their new ones, in Spark's Python workers.

Rows are exchanged as Arrow IPC messages, with many rows in each: for Spark these are a few rows of bytes, which it neither
converts nor compares. Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection
from airflow_delta.core.data_files.compression import ending
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.schema import StructType, arrow_schema
from airflow_delta.spark.io.map_files import FileShares
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import with_typed_errors
from airflow_delta.spark.optimize.ordered_values import OrderedColumn, Values
from airflow_delta.spark.optimize.partition_tree import PartitionTree
from airflow_delta.spark.optimize.sampling import GROUP, Paths
from airflow_delta.spark.rewrite.rewrite_worker import INPUT_COLUMNS, copied_rows

MESSAGES_DDL = "output int, bucket int, rows bigint, content binary"
WRITTEN = pa.schema(
    [
        ("output", pa.int32()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("rows_read", pa.int64()),
        ("rows_written", pa.int64()),
    ]
)
WRITTEN_DDL = "output int, path string, size bigint, stats string, rows_read bigint, rows_written bigint"

_MESSAGE_NAMES = ("output", "bucket", "rows", "content")
_PIECE_BYTES = 8 << 20, 64 << 20
"""Least and most bytes of rows sorted at once: memory of small pieces is reused, that of large ones is allocated anew."""
_MESSAGE_BYTES = 1 << 19  # approximate bytes of one bucket's message
_BATCH_BYTES = 256 << 20
"""Bytes of messages sent at once: each column adds some hundred bytes to a message, and Arrow's offsets have 32 bits."""
_WRITE_BYTES = 8 << 20
_NO_COLUMNS = StructType(())
_FEW_BUCKETS = 1 << 16  # numpy sorts two-byte integers in linear time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """Where the rows of one group go.

    Attributes:
        tree: The tree over the rows; a code is the number of values in ``begins`` that are not greater than a row's.
        begins: For each column, the values at which leaves begin.
        buckets_per_file: Number of consecutive buckets that make up a file.
        first_output: Number of the first bucket's file, counted over all groups.
    """

    tree: PartitionTree
    begins: tuple[Values, ...]
    buckets_per_file: int
    first_output: int

    def buckets_of(self, rows: pa.RecordBatch, paths: Paths) -> np.ndarray:
        """The bucket of each row."""
        if self.tree.buckets == 1:
            return np.zeros(rows.num_rows, np.int32)
        codes = [OrderedColumn.of(rows, path).codes(begins) for path, begins in zip(paths, self.begins, strict=True)]
        return self.tree.buckets_of(codes, rows.num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedColumns:
    """The columns of files with copied rows.

    Attributes:
        schema: The table's columns in data files.
        partitions: Partition columns that the files contain, too.
        row_ids: How rows carry their ids; None if they carry none.
    """

    schema: StructType
    partitions: StructType = _NO_COLUMNS
    row_ids: RowIds | None

    @property
    def stored(self) -> StructType:
        """All columns to read from a file."""
        return StructType((*self.schema.fields, *self.partitions.fields, *(self.row_ids.fields if self.row_ids else ())))

    @property
    def written(self) -> StructType:
        """All columns of a new file."""
        row_ids = self.row_ids.written_fields if self.row_ids else ()
        return StructType((*self.schema.fields, *self.partitions.fields, *row_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleWriter:
    """Reads files and returns their rows, bucket by bucket.

    Attributes:
        table: The table of the files.
        columns: The columns to read.
        paths: The columns to cluster by.
        placements: Placements by group.
        shares: ``INPUT_COLUMNS`` and ``GROUP``, sorted by group.
    """

    table: TableFiles
    columns: CopiedColumns
    paths: Paths
    placements: Mapping[int, Placement]
    shares: FileShares

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition of task numbers."""
        return with_typed_errors(self._messages(batches))

    def _messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for files in self.shares.of(batches):
            groups = files[GROUP].to_numpy()
            bounds = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
            for first, end in pairwise(bounds):
                placement = self.placements[int(groups[first])]
                size = int(np.clip(placement.tree.buckets * _MESSAGE_BYTES, *_PIECE_BYTES))
                for rows in self._pieces(files.slice(first, end - first), size):
                    yield from self._in_buckets(rows, placement)

    def _pieces(self, files: pa.Table, piece_bytes: int) -> Iterator[pa.RecordBatch]:
        """The rows of these files, about ``piece_bytes`` at a time: larger pieces give fewer and larger messages."""
        stored = self.columns.stored
        pending: list[pa.RecordBatch] = []
        size = 0
        inputs = files.select(INPUT_COLUMNS)
        for batch, live in copied_rows(self.table, stored, self.columns.row_ids, inputs):
            there = batch.select(stored.names) if live is None else batch.select(stored.names).filter(live)
            pending.append(there)
            size += there.nbytes
            if size >= piece_bytes:
                yield pa.concat_batches(pending)
                pending, size = [], 0
        if pending:
            yield pa.concat_batches(pending)

    def _in_buckets(self, rows: pa.RecordBatch, placement: Placement) -> Iterator[pa.RecordBatch]:
        buckets = placement.buckets_of(rows, self.paths)
        narrow = buckets.astype(np.uint16) if placement.tree.buckets <= _FEW_BUCKETS else buckets
        order = np.argsort(narrow, kind="stable")
        ordered, buckets = rows.take(pa.array(order)), buckets[order]
        bounds = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)] if len(buckets) else [0]
        firsts = buckets[bounds[:-1]]
        outputs = firsts // placement.buckets_per_file + placement.first_output
        columns = [pa.array(outputs, pa.int32()), pa.array(firsts, pa.int32()), pa.array(np.diff(bounds), pa.int64())]
        begin, size, messages = 0, 0, []
        for stop, (first, end) in enumerate(pairwise(bounds), start=1):
            messages.append(ordered.slice(first, end - first).serialize())
            size += messages[-1].size
            if size >= _BATCH_BYTES or stop == len(firsts):
                described = [column[begin:stop] for column in columns]
                yield pa.RecordBatch.from_arrays([*described, _binary(messages)], names=list(_MESSAGE_NAMES))
                begin, size, messages = stop, 0, []


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputWriter:
    """Writes the messages of each output to one file, and returns one ``WRITTEN`` row for each.

    Attributes:
        table: The table of the files.
        directory: Directory of the new files, below the root.
        columns: Their columns.
        selection: Which columns get statistics.
        codec: Compression codec, as Arrow names it.
    """

    table: TableFiles
    directory: str
    columns: CopiedColumns
    selection: StatisticsSelection
    codec: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition of messages, ordered by output and bucket."""
        return with_typed_errors(self._outputs(batches))

    def _outputs(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        messages = (
            (output, rows, content.as_buffer())
            for batch in batches
            for output, rows, content in zip(
                batch.column(0).to_pylist(), batch.column(2).to_pylist(), batch.column(3), strict=True
            )
        )
        for output, of_output in groupby(messages, key=lambda message: message[0]):
            yield self._written(output, ((rows, content) for _, rows, content in of_output))

    def _written(self, output: int, messages: Iterator[tuple[int, pa.Buffer]]) -> pa.RecordBatch:
        path = f"{self.directory}/part-{output:05d}-{uuid.uuid4()}-c000{ending(self.codec)}"
        filesystem, location = self.table.locate(path)
        if isinstance(filesystem, pafs.LocalFileSystem):  # object stores have no directories, and HDFS creates them
            filesystem.create_dir(PurePosixPath(location).parent.as_posix())
        # Row ids and partition columns have no statistics.
        selection = replace(self.selection, indexed_columns=len(self.selection.leaves(self.columns.schema)))
        options: dict[str, Any] = {"compression": self.codec, "selection": selection, "table": self.table.table_uri}
        with DataFileWriter(filesystem, location, self.columns.written, **options) as writer:
            rows_read = 0
            for announced, rows in self._rows(messages):
                writer.write(rows)
                rows_read += announced
        written = writer.close()
        result: dict[str, object] = {"output": output, "rows_read": rows_read, "rows_written": 0}
        if written is not None:
            result |= {"path": path, "size": written.size, "stats": written.stats, "rows_written": written.num_records}
        return pa.RecordBatch.from_pylist([result], schema=WRITTEN)

    def _rows(self, messages: Iterator[tuple[int, pa.Buffer]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows in the messages, in batches large enough for a call, with the number of rows that were sent."""
        schema = arrow_schema(self.columns.stored)
        pending: list[pa.RecordBatch] = []
        size = sent = 0
        for rows, message in messages:
            pending.append(pa.ipc.read_record_batch(message, schema))
            size, sent = size + message.size, sent + rows
            if size >= _WRITE_BYTES:
                yield sent, pa.concat_batches(pending)
                pending, size, sent = [], 0, 0
        if pending:
            yield sent, pa.concat_batches(pending)


def _binary(values: Sequence[pa.Buffer]) -> pa.BinaryArray:
    """The values as one array, copied once; ``pa.array`` would need bytes objects, which are copies already."""
    offsets = pa.array(np.cumsum([0, *(value.size for value in values)])).cast(pa.int32())
    data = np.concatenate([np.frombuffer(value, np.uint8) for value in values])
    return pa.Array.from_buffers(pa.binary(), len(values), [None, offsets.buffers()[1], pa.py_buffer(data)])
