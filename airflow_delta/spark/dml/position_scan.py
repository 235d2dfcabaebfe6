"""The part of matching that runs in Spark's Python workers: reads rows with file and position, filtered by keys.

Imports no SQL parser, as workers need none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files import ROW_INDEX
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.least_versions import is_at_least
from airflow_delta.core.schema import StructType, arrow_schema
from airflow_delta.spark.dml.key_filter import KeyFilter
from airflow_delta.spark.io.map_files import FileShares
from airflow_delta.spark.io.shared_bytes import SharedBytes
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import from_ipc, with_typed_errors

FILE = "__airflow_delta_file"
"""Column of staged rows: index of the target row's file among the candidates; NULL for a source row without match."""
ROW = "__airflow_delta_row"
"""Column of staged rows: physical position of the target row in its file."""
ROW_ID = "__airflow_delta_row_id"
"""Column of staged rows: the row id that an updated row keeps."""

POSITIONED = ["path", "partition_values", "deletion_vector", "base_row_id", FILE]
"""Columns that a scan needs of files: some of ``ADD_FILE``, and the index."""

_BATCH_VALUES = 1 << 20
_MIN_BATCH_ROWS = 1 << 16
_STREAMED_ROWS = 1 << 17  # larger batches need newly allocated memory each time, which costs more than it saves
_KEY = "__airflow_delta_key_"
_JOINS_BATCHES = is_at_least(pa.__version__, (26, 0))
"""Whether this pyarrow can join batches as they arrive; older ones build the key table again for each batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionScan:
    """Reads files in Python workers.

    Attributes:
        shares: The files of each task, columns ``POSITIONED``.
        keys: Keys to keep, a serialized table; rows with other keys are left out. None keeps all.
        key_filter: Likewise, as a filter of keys.
        where: Rows for which this is not true are left out.
        unless: Rows for which this is true are kept, whatever their key.
        row_ids: How rows carry their ids; if given, ``ROW_ID`` is one of the columns.
    """

    table: TableFiles
    columns: StructType
    shares: FileShares
    keys: SharedBytes | None = None
    key_filter: KeyFilter | None = None
    where: pc.Expression | None = None
    unless: pc.Expression | None = None
    row_ids: RowIds | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition of task numbers."""
        return with_typed_errors(self._rows(batches))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keys = None if self.keys is None else from_ipc(self.keys.value)
        for files in self.shares.of(batches):
            if self.key_filter is not None:
                for rows in self._read(files, most_rows=_STREAMED_ROWS):
                    yield rows.filter(self._passing(self.key_filter, rows))
            elif keys is None:
                yield from self._read(files, most_rows=_STREAMED_ROWS)
            elif self.unless is None and all(map(_is_plain, self.schema.types)) and _JOINS_BATCHES:
                yield from _with_keys(keys, self.schema, self._read(files, most_rows=_STREAMED_ROWS))
            else:
                for rows in self._read(files):
                    yield rows.take(self._positions(keys, rows))

    @property
    def schema(self) -> pa.Schema:
        """Schema of the resulting batches: ``columns``, ``FILE`` and ``ROW``."""
        return pa.schema([*arrow_schema(self.columns), pa.field(FILE, pa.int32()), pa.field(ROW, pa.int64())])

    def _read(self, files: pa.Table, *, most_rows: int = _BATCH_VALUES) -> Iterator[pa.RecordBatch]:
        """The rows of these files, whatever their keys; at most ``most_rows`` in a batch."""
        batch_rows = min(most_rows, max(_BATCH_VALUES // max(len(self.columns.fields), 1), _MIN_BATCH_ROWS))
        read = StructType((*self.columns.fields, *(self.row_ids.fields if self.row_ids else ())))
        reader, schema = self.table.rows(read, batch_rows=batch_rows, with_row_index=True), self.schema
        for file in files.to_pylist():
            for batch in reader.of(file["path"], dict(file["partition_values"]), hidden_by=file["deletion_vector"]):
                kept = batch if self.where is None else batch.filter(self.where)
                if self.row_ids:
                    ids, _ = self.row_ids.columns(kept, file["base_row_id"], None)
                    kept = kept.set_column(kept.schema.get_field_index(ROW_ID), ROW_ID, ids)
                ordinals = pa.repeat(pa.scalar(file[FILE], pa.int32()), kept.num_rows)
                columns = [*(kept.column(name) for name in self.columns.names), ordinals, kept.column(ROW_INDEX)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _passing(self, key_filter: KeyFilter, rows: pa.RecordBatch) -> pa.Array:
        """For each row, whether its key passes, or ``unless`` is true for it."""
        passing = key_filter.holds(rows)
        passing[np.asarray(self._staying(rows))] = True
        return pa.array(passing)

    def _positions(self, keys: pa.Table, rows: pa.RecordBatch) -> pa.Array:
        """Positions in the batch of the rows that have one of the keys, or for which ``unless`` is true."""
        wanted = _key_columns(keys, rows) | {ROW: pa.array(np.arange(rows.num_rows))}
        found = pa.table(wanted).join(_renamed(keys), list(wanted)[:-1], join_type="left semi", use_threads=False)[ROW]
        return found.combine_chunks() if self.unless is None else pa.array(np.union1d(found, self._staying(rows)))

    def _staying(self, rows: pa.RecordBatch) -> pa.Array:
        """Positions in the batch of the rows for which ``unless`` is true."""
        if self.unless is None:
            return pa.array([], pa.int64())
        numbered = rows.set_column(rows.schema.get_field_index(ROW), ROW, pa.array(np.arange(rows.num_rows)))
        return numbered.filter(self.unless).column(ROW)


def _with_keys(keys: pa.Table, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Those of the rows (columns ``schema``) that have one of the keys, in order; NULL equals nothing.

    The table of keys is built once, and rows are streamed past it: only one batch is held at a time.
    """
    # Imported late: it imports pandas, which the driver does not need.
    from pyarrow.acero import (  # noqa: PLC0415
        Declaration,
        HashJoinNodeOptions,
        RecordBatchReaderSourceNodeOptions,
        TableSourceNodeOptions,
    )

    wanted = _renamed(keys)
    names, both = wanted.column_names, pa.schema([*schema, *wanted.schema])
    with_keys = (
        pa.RecordBatch.from_arrays([*batch.columns, *_key_columns(keys, batch).values()], schema=both) for batch in rows
    )
    reader = pa.RecordBatchReader.from_batches(both, with_keys)
    left = Declaration("record_batch_reader_source", RecordBatchReaderSourceNodeOptions(reader))
    right = Declaration("table_source", TableSourceNodeOptions(wanted))
    options = HashJoinNodeOptions("left semi", names, names, left_output=schema.names, right_output=[])
    yield from Declaration("hashjoin", options, inputs=[left, right]).to_reader(use_threads=False)


def _is_plain(data_type: pa.DataType) -> bool:
    """Whether Arrow's joins support columns of this type as payload; they support no nested types and no null type."""
    return any(
        is_kind(data_type) for is_kind in (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_string, pa.types.is_binary)
    )


def _renamed(keys: pa.Table) -> pa.Table:
    return keys.rename_columns([f"{_KEY}{name}" for name in keys.column_names])


def _key_columns(keys: pa.Table, rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """The rows' columns to compare with the keys, cast to the types of these, under their names in ``_renamed``."""
    return {f"{_KEY}{field.name}": rows.column(field.name).cast(field.type) for field in keys.schema}
