"""Writes deletion vectors in Spark's Python workers.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from airflow_delta.core.data_files.deletion_vector_writer import write_deletion_vectors
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.spark.io.shared_bytes import SharedFiles
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import with_typed_errors

RESULT = pa.schema(
    [
        ("file", pa.int32()),
        ("num_records", pa.int64()),
        ("storage_type", pa.string()),
        ("path_or_inline_dv", pa.string()),
        ("offset", pa.int32()),
        ("size_in_bytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
RESULT_DDL = (
    "file int, num_records bigint, storage_type string, path_or_inline_dv string, "
    "`offset` int, size_in_bytes int, cardinality bigint"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorWorker:
    """Turns a partition of row positions into deletion vectors, and returns one ``RESULT`` row for each file.

    Attributes:
        table: The table of the files.
        directory: Directory of the deletion vectors, below the root.
        files: Columns ``path``, ``deletion_vector`` and ``num_records`` of files, with their unique numbers.
    """

    table: TableFiles
    directory: str
    files: SharedFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition of (file, row), in this order."""
        return with_typed_errors(self._written(batches))

    def _written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = self.files.opened()
        deletion_vectors: dict[int, RowBitmap] = {}
        counts: list[int] = []
        for number, rows in _by_file(batches):
            if number in deletion_vectors:
                raise ValueError(f"the rows of file {number} do not stand together")
            file = files.of(number).to_pylist()[0]
            deletion_vectors[number] = self._deletion_vector(file, rows)
            counts.append(self._num_records(file))
        if not deletion_vectors:
            return
        filesystem, root = self.table.locate.root
        if isinstance(filesystem, pafs.LocalFileSystem):
            filesystem.create_dir(str(PurePosixPath(root) / self.directory))
        written = write_deletion_vectors(filesystem, root, deletion_vectors.values(), directory=self.directory)
        columns = [pa.array(list(deletion_vectors), pa.int32()), pa.array(counts, pa.int64()), *written.flatten()]
        yield pa.RecordBatch.from_arrays(columns, schema=RESULT)

    def _deletion_vector(self, file: Mapping[str, Any], rows: pa.Int64Array) -> RowBitmap:
        """All rows of the file that are deleted now."""
        going, former = RowBitmap.from_positions(rows), file["deletion_vector"]
        return going if former is None else going.union(self.table.hidden_rows(file["path"], former))

    def _num_records(self, file: Mapping[str, Any]) -> int:
        known: int | None = file["num_records"]
        if known is not None:
            return known
        filesystem, path = self.table.locate(file["path"])
        return int(pq.read_metadata(path, filesystem=filesystem).num_rows)


def _by_file(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Int64Array]]:
    """The distinct rows of each file, ascending; batches are sorted by (file, row)."""
    number, pieces = None, []
    for batch in batches:
        files = batch.column(0).to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(files)]
        for first, end in pairwise(bounds):
            if first == end:
                continue
            if number is not None and files[first] != number:
                yield number, _once(pieces)
                pieces = []
            number = int(files[first])
            pieces.append(batch.column(1).slice(first, end - first))
    if number is not None:
        yield number, _once(pieces)


def _once(pieces: list[pa.Int64Array]) -> pa.Int64Array:
    return pa.concat_arrays(pieces).unique()
