"""The side of a match that runs in Spark's Python workers: rows with their file and position, filtered by keys.

Imports no SQL parser: workers need none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from airflow_delta.core.data_files import ROW_INDEX, open_data_file
from airflow_delta.core.schema import StructType
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.spark.data_paths import file_uri
from airflow_delta.spark.worker_values import from_ipc, with_typed_errors

FILE = "__file"
"""Column of staged rows: ordinal of the target row's file among the candidates; NULL for a source row without match."""
ROW = "__row"
"""Column of staged rows: physical position of the target row in its file."""

_SCAN_VALUES = 1 << 20
_MIN_SCAN_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionScan:
    """Reads every ``tasks``-th file in a Python worker. Tables are held as bytes."""

    table_uri: str
    columns: StructType
    files: bytes
    tasks: int
    keys: bytes | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition of task numbers."""
        return with_typed_errors(self._rows(batches))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = from_ipc(self.files)
        keys = None if self.keys is None else from_ipc(self.keys)
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for file in range(task, len(files), self.tasks):
                    yield from self._read(file, files, keys)

    def _read(self, file: int, files: pa.Table, keys: pa.Table | None) -> Iterator[pa.RecordBatch]:
        filesystem, path = data_filesystem(file_uri(self.table_uri, files["path"][file].as_py()))
        values = dict(files["partition_values"][file].as_py())
        batch_rows = max(_SCAN_VALUES // max(len(self.columns.fields), 1), _MIN_SCAN_ROWS)
        rows = open_data_file(
            filesystem, path, self.columns, values, batch_rows=batch_rows, with_row_index=True, table=self.table_uri
        )
        for batch in rows:
            kept = batch if keys is None else batch.take(_positions_of(keys, batch))
            ordinals = pa.repeat(pa.scalar(file, pa.int32()), kept.num_rows)
            positions = kept.column(ROW_INDEX)
            yield pa.RecordBatch.from_arrays(
                [*(kept.column(name) for name in self.columns.names), ordinals, positions], [*self.columns.names, FILE, ROW]
            )


def _positions_of(keys: pa.Table, batch: pa.RecordBatch) -> pa.Array:
    """Positions of the rows that have one of the keys; NULLs equal nothing."""
    columns = {name: batch.column(name).cast(keys.schema.field(name).type) for name in keys.column_names}
    positions = pa.array(np.arange(batch.num_rows))
    found = pa.table({**columns, ROW: positions}).join(keys, keys.column_names, join_type="left semi", use_threads=False)
    return found[ROW].combine_chunks()
