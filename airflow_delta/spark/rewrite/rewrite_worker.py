"""The part of a rewrite that runs in Spark's Python workers."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.data_files import DataFileWriter, StatisticsSelection
from airflow_delta.core.data_files.changed_rows import CHANGE_TYPE_FIELD
from airflow_delta.core.data_files.compression import ending
from airflow_delta.core.data_files.kept_columns import KeptColumns, PartialFileWriter
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.map_files import FileShares
from airflow_delta.spark.io.shared_bytes import SharedFiles
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import with_typed_errors
from airflow_delta.spark.rewrite.row_changes import MARKS, OUTPUT, RowChanges, changed_rows, with_changes

RESULT = pa.schema(
    [
        ("output", pa.int32()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("rows_read", pa.int64()),
        ("rows_written", pa.int64()),
        ("change_path", pa.string()),
        ("change_size", pa.int64()),
        ("change_rows", pa.int64()),
    ]
)
RESULT_DDL = (
    "output int, path string, size bigint, stats string, rows_read bigint, rows_written bigint, "
    "change_path string, change_size bigint, change_rows bigint"
)

INPUT_COLUMNS = ("path", "partition_values", "deletion_vector", "base_row_id", "default_row_commit_version")
"""The columns of ``ADD_FILE`` that a worker needs of inputs."""

_NO_STATISTICS = StatisticsSelection(indexed_columns=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteWorker:
    """Writes new files from existing ones, and returns one ``RESULT`` row for each output.

    Attributes:
        table: The table of the files.
        directory: Directory of the new files, below the root; None writes none.
        change_directory: Directory of change data files; None writes none.
        schema: The table's columns in data files.
        partitions: Partition columns that the new files contain, too.
        selection: Which columns get statistics.
        codec: Compression codec, as Arrow names it.
        row_ids: How rows carry their ids; None if they carry none.
    """

    table: TableFiles
    directory: str | None
    change_directory: str | None
    schema: StructType
    partitions: StructType
    selection: StatisticsSelection
    codec: str
    row_ids: RowIds | None

    def write(
        self, output: int, inputs: pa.Table, changes: RowChanges, *, changed: Collection[str] | None = None
    ) -> pa.RecordBatch:
        """Write the output with all rows of its inputs (``INPUT_COLUMNS``), in order, with the changes applied.

        Args:
            output: Its index.
            inputs: The input files.
            changes: The changes.
            changed: Names of the columns that get new values, if no row is removed; None if rows may be.
        """
        kept = None if changed is None else self._kept(inputs, changed)
        return pa.RecordBatch.from_pylist([self._write(output, inputs, changes, kept)], schema=RESULT)

    def _kept(self, inputs: pa.Table, changed: Collection[str]) -> KeptColumns | None:
        """The columns that the new file copies without decoding."""
        takes_all = len(inputs) == 1 and inputs["deletion_vector"].null_count and self.row_ids is None
        if not takes_all or self.directory is None or self.change_directory is not None:
            return None
        filesystem, path = self.table.locate(inputs["path"][0].as_py())
        return KeptColumns.of(filesystem, path, self._stored, changed, compression=self.codec, table=self.table.table_uri)

    def _write(
        self, output: int, inputs: pa.Table, changes: RowChanges, kept_columns: KeptColumns | None
    ) -> Mapping[str, object]:
        """Stream the inputs with their changes to a new file, and change data to another; without rows there is no file."""
        position = rows_read = 0
        stored = self._stored if kept_columns is None else kept_columns.rest
        with ExitStack() as stack:
            files = self._new_file(
                stack, self.directory, f"part-{output:05d}", self._written, self._selection, kept=kept_columns
            )
            recorded = self._new_file(stack, self.change_directory, f"cdc-{output:05d}", self._recorded, _NO_STATISTICS)
            for batch, kept in copied_rows(self.table, stored, self.row_ids, inputs):
                of_batch = changes.take(output, position, batch.num_rows)
                if files:
                    files.writer.write(with_changes(batch, position, of_batch, kept))
                if recorded and of_batch is not None:
                    for kind, rows in changed_rows(batch, position, of_batch):
                        kinds = pa.repeat(pa.scalar(kind), rows.num_rows)
                        recorded.writer.write(rows.append_column(CHANGE_TYPE_FIELD.name, kinds))
                position += batch.num_rows
                rows_read += batch.num_rows if kept is None else kept.true_count
            changes.finish(output)
        result: dict[str, object] = {"output": output, "rows_read": rows_read, "rows_written": 0, "change_rows": 0}
        if files and (written := files.writer.close()):
            result |= {"path": files.path, "size": written.size, "stats": written.stats, "rows_written": written.num_records}
        if recorded and (written := recorded.writer.close()):
            result |= {"change_path": recorded.path, "change_size": written.size, "change_rows": written.num_records}
        return result

    @property
    def _stored(self) -> StructType:
        return StructType((*self.schema.fields, *self.partitions.fields, *(self.row_ids.fields if self.row_ids else ())))

    @property
    def _written(self) -> StructType:
        row_ids = self.row_ids.written_fields if self.row_ids else ()
        return StructType((*self.schema.fields, *self.partitions.fields, *row_ids))

    @property
    def _recorded(self) -> StructType:
        return StructType((*self.schema.fields, CHANGE_TYPE_FIELD))

    @property
    def _selection(self) -> StatisticsSelection:
        """Only the table's own columns: neither row ids nor partition columns have statistics."""
        return replace(self.selection, indexed_columns=len(self.selection.leaves(self.schema)))

    def _new_file(
        self,
        stack: ExitStack,
        directory: str | None,
        name: str,
        schema: StructType,
        selection: StatisticsSelection,
        *,
        kept: KeptColumns | None = None,
    ) -> _NewFile | None:
        if directory is None:
            return None
        path = f"{directory}/{name}-{uuid.uuid4()}-c000{ending(self.codec)}"
        filesystem, location = self.table.locate(path)
        if isinstance(filesystem, pafs.LocalFileSystem):  # object stores have no directories, and HDFS creates them
            filesystem.create_dir(PurePosixPath(location).parent.as_posix())
        options: dict[str, Any] = {"compression": self.codec, "selection": selection}
        if kept is None:
            writer = DataFileWriter(filesystem, location, schema, table=self.table.table_uri, **options)
        else:
            writer = PartialFileWriter(filesystem, location, kept, **options)
        return _NewFile(path=path, writer=stack.enter_context(writer))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWorker:
    """Turns a partition of sorted changes into new files.

    Attributes:
        rewrite: Writes the files.
        columns: Names of the columns of changes, in order.
        inputs: ``INPUT_COLUMNS``, numbered by ``OUTPUT``.
        drops_rows: Whether rows may be removed.
    """

    rewrite: RewriteWorker
    columns: tuple[str, ...]
    inputs: SharedFiles
    drops_rows: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        named = (batch.rename_columns(list(self.columns)) for batch in batches)
        return with_typed_errors(self._results(RowChanges(named)))

    def _results(self, changes: RowChanges) -> Iterator[pa.RecordBatch]:
        inputs = self.inputs.opened()
        changed = None if self.drops_rows else frozenset(self.columns).difference(MARKS)
        while (output := changes.next_output()) is not None:
            yield self.rewrite.write(output, inputs.of(output), changes, changed=changed)


@dataclass(frozen=True, slots=True)
class ConcatenationWorker:
    """Writes outputs with all rows of their inputs; ``shares`` have ``INPUT_COLUMNS`` and ``OUTPUT``, sorted."""

    rewrite: RewriteWorker
    shares: FileShares

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        return with_typed_errors(self._results(batches))

    def _results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for inputs in self.shares.of(batches):
            outputs = inputs[OUTPUT].to_numpy()
            for output in np.unique(outputs).tolist():
                first, end = np.searchsorted(outputs, [output, output + 1])
                yield self.rewrite.write(output, inputs.slice(first, end - first), RowChanges(iter(())))


def copied_rows(
    table: TableFiles, stored: StructType, row_ids: RowIds | None, inputs: pa.Table
) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray | None]]:
    """All rows of files as a new file copies them, each batch with a mask of those to keep; None to keep all.

    Args:
        table: The table of the files.
        stored: The columns of the new file, including those with row ids.
        row_ids: How rows carry their ids; None if they carry none.
        inputs: ``INPUT_COLUMNS`` of the files.
    """
    rows = table.rows(stored, with_row_index=row_ids is not None)
    for path, values, descriptor, base_row_id, version in zip(
        *(inputs[name].to_pylist() for name in INPUT_COLUMNS), strict=True
    ):
        for batch, kept in rows.masked(path, dict(values), hidden_by=descriptor):
            yield _carrying(row_ids, batch, base_row_id, version) if row_ids else batch, kept


def _carrying(row_ids: RowIds, rows: pa.RecordBatch, base_row_id: int | None, version: int | None) -> pa.RecordBatch:
    """The rows with their ids, and the versions that last changed them, in the hidden columns of files."""
    computed = row_ids.columns(rows, base_row_id, version)
    for name, values in zip((row_ids.id_column, row_ids.version_column), computed, strict=True):
        if name:
            rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewFile:
    """A file while it is written; ``path`` as in the log."""

    path: str
    writer: DataFileWriter
