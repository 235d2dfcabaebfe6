"""The side of a match that runs in Spark's Python workers: rows with their file and position, filtered by keys.

Imports no SQL parser: workers need none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files import ROW_INDEX
from airflow_delta.core.data_files.row_ids import ROW_ID, RowIds
from airflow_delta.core.schema import StructType
from airflow_delta.spark.table_files import TableFiles
from airflow_delta.spark.worker_values import from_ipc, with_typed_errors

FILE = "__airflow_delta_file"
"""Column of staged rows: ordinal of the target row's file among the candidates; NULL for a source row without match."""
ROW = "__airflow_delta_row"
"""Column of staged rows: physical position of the target row in its file."""

_SCAN_VALUES = 1 << 20
_MIN_SCAN_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionScan:
    """Reads every ``tasks``-th file in a Python worker. Tables are held as bytes.

    Attributes:
        keys: Rows that have none of these are left out; None leaves out none.
        where: Rows for which this is not true are left out.
        unless: Rows for which this is true stay, whatever their key.
        row_ids: How rows carry their ids; where it is given, ``ROW_ID`` is one of the columns.
    """

    table: TableFiles
    columns: StructType
    files: bytes
    tasks: int
    keys: bytes | None = None
    where: pc.Expression | None = None
    unless: pc.Expression | None = None
    row_ids: RowIds | None = None

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
        described = files.slice(file, 1).to_pylist()[0]
        batch_rows = max(_SCAN_VALUES // max(len(self.columns.fields), 1), _MIN_SCAN_ROWS)
        read = StructType((*self.columns.fields, *(self.row_ids.fields if self.row_ids else ())))
        rows = self.table.rows(read, batch_rows=batch_rows, with_row_index=True).of(
            described["path"], dict(described["partition_values"]), hidden_by=described["deletion_vector"]
        )
        for batch in rows:
            kept = batch if keys is None else batch.take(self._positions(keys, batch))
            kept = kept if self.where is None else kept.filter(self.where)
            if self.row_ids:
                ids, _ = self.row_ids.columns(kept, described["base_row_id"], None)
                kept = kept.set_column(kept.schema.get_field_index(ROW_ID), ROW_ID, ids)
            ordinals = pa.repeat(pa.scalar(file, pa.int32()), kept.num_rows)
            positions = kept.column(ROW_INDEX)
            yield pa.RecordBatch.from_arrays(
                [*(kept.column(name) for name in self.columns.names), ordinals, positions], [*self.columns.names, FILE, ROW]
            )

    def _positions(self, keys: pa.Table, batch: pa.RecordBatch) -> pa.Array:
        found = _positions_of(keys, batch)
        if self.unless is None:
            return found
        numbered = batch.append_column(ROW, pa.array(np.arange(batch.num_rows)))
        return pa.array(np.union1d(found, numbered.filter(self.unless).column(ROW)))


def _positions_of(keys: pa.Table, batch: pa.RecordBatch) -> pa.Array:
    """Positions of the rows that have one of the keys; NULLs equal nothing."""
    columns = {name: batch.column(name).cast(keys.schema.field(name).type) for name in keys.column_names}
    positions = pa.array(np.arange(batch.num_rows))
    found = pa.table({**columns, ROW: positions}).join(keys, keys.column_names, join_type="left semi", use_threads=False)
    return found[ROW].combine_chunks()
