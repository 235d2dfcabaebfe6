"""The part of the Arrow sink that runs in Spark's Python workers.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection
from airflow_delta.core.data_files.compression import DEFAULT, ending
from airflow_delta.core.data_files.writer import ROW_GROUP_BYTES
from airflow_delta.core.schema import StructType
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.spark.io.worker_values import with_typed_errors

RESULT = pa.schema(
    [
        ("path", pa.string()),
        ("directory", pa.string()),
        ("size", pa.int64()),
        ("num_records", pa.int64()),
        ("stats", pa.string()),
    ]
)
"""One row for each file; ``path`` is below the table's root, not percent-encoded."""
RESULT_DDL = "path string, directory string, size bigint, num_records bigint, stats string"

FILE_BYTES = 1 << 30
"""Bytes after which a task starts its next file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowSinkWorker:
    """Turns a partition of rows into files, and one ``RESULT`` row for each.

    Attributes:
        filesystems: Gives the table's filesystem.
        table_uri: The table's root, for errors.
        folder: Folder of the files, below the root.
        directory: Name of the directory column, which is then the first input column, sorted; None without one.
        schema: The other input columns, in order, and as the files contain them.
        selection: Which columns get statistics.
        codec: Compression codec, as Arrow names it.
        file_bytes: Bytes after which the next file starts.
    """

    filesystems: TableFilesystems
    table_uri: str
    folder: str
    directory: str | None
    schema: StructType
    selection: StatisticsSelection
    codec: str = DEFAULT
    file_bytes: int = FILE_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        return with_typed_errors(self._results(batches))

    def _results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = _Files(self)
        try:
            for batch in batches:
                for value, rows in self._by_directory(batch):
                    files.write(value, rows)
            files.close()
        except BaseException:
            files.abort()
            raise
        if files.written:
            yield pa.RecordBatch.from_pylist(files.written, schema=RESULT)

    def _by_directory(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each directory, in order; all rows together if there are no directories."""
        if not batch.num_rows:
            return
        rows = batch if self.directory is None else batch.select(range(1, batch.num_columns))
        named = pa.RecordBatch.from_arrays(rows.columns, names=list(self.schema.names)) if rows.num_columns else rows
        if self.directory is None:
            yield "", named
            return
        values = batch.column(0).to_numpy()
        for first, end in pairwise([0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]):
            yield str(values[first]), named.slice(first, end - first)


class _Files:
    """The files of one task, of which only one is open at a time."""

    def __init__(self, sink: ArrowSinkWorker) -> None:
        self._sink = sink
        self._value: str | None = None
        self._writer: DataFileWriter | None = None
        self.written: list[dict[str, object]] = []
        """``RESULT`` rows of the complete files."""

    def write(self, value: str, rows: pa.RecordBatch) -> None:
        if self._writer is None or value != self._value or self._writer.flushed_bytes >= self._sink.file_bytes:
            self.close()
            self._open(value)
        if self._writer is not None:
            self._writer.write(rows)

    def close(self) -> None:
        if self._writer is None:
            return
        file = self._writer.close()
        self._writer = None
        if file is not None:
            described = {"size": file.size, "num_records": file.num_records, "stats": file.stats}
            _, root = self._sink.filesystems()
            path = file.path.removeprefix(root).lstrip("/")
            self.written.append({"path": path, "directory": self._value, **described})

    def abort(self) -> None:
        """Delete all files, as far as the storage answers; those left are not part of any commit."""
        if self._writer is not None:
            self._writer.abort()
        for file in self.written:
            with suppress(OSError):
                filesystem, root = self._sink.filesystems()
                filesystem.delete_file(f"{root}/{file['path']}")

    def _open(self, value: str) -> None:
        filesystem, root = self._sink.filesystems()  # for each file, as storage credentials may expire meanwhile
        folder = f"{root}/{self._sink.folder}" + (f"/{self._sink.directory}={value}" if self._sink.directory else "")
        location = f"{folder}/part-{len(self.written):05d}-{uuid.uuid4()}-c000{ending(self._sink.codec)}"
        if isinstance(filesystem, pafs.LocalFileSystem):  # object stores have no directories, and HDFS creates them
            filesystem.create_dir(PurePosixPath(location).parent.as_posix())
        self._value = value
        self._writer = DataFileWriter(
            filesystem,
            location,
            self._sink.schema,
            compression=self._sink.codec,
            selection=self._sink.selection,
            table=self._sink.table_uri,
            row_group_bytes=min(ROW_GROUP_BYTES, self._sink.file_bytes),
        )
