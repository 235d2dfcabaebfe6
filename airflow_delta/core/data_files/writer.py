"""Writes one data file as Spark would write it.

Types, names in lists and maps, and key-value metadata are Spark's, so that every reader sees exactly the table's types.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from airflow_delta.core.data_files.conform import conform
from airflow_delta.core.data_files.dictionaries import without_repetition
from airflow_delta.core.data_files.hidden_nulls import has_required_members, without_hidden_nulls
from airflow_delta.core.data_files.legacy_calendar import SPARK_VERSION_KEY
from airflow_delta.core.data_files.statistics import RowObserver, footer_statistics
from airflow_delta.core.data_files.statistics_selection import StatisticsSelection
from airflow_delta.core.errors import ConstraintViolatedError, SchemaMismatchError
from airflow_delta.core.least_versions import is_at_least
from airflow_delta.core.schema import (
    StructType,
    arrow_schema,
    physical_name,
    physical_schema,
    schema_json,
    writing_schema,
)
from airflow_delta.core.schema.data_types import VOID
from airflow_delta.core.storage.storage_failures import read_data

SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"

_SPARK_VERSION = b"4.2.0"
"""The version of Spark whose rules the file follows (calendar, decimals, names), although Spark did not write it."""

_ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 128 << 20
"""Bytes of Arrow memory; parquet-mr has the same limit, in encoded bytes."""

_DEFAULT_SELECTION = StatisticsSelection()
_WRITES_FILTERS = is_at_least(pa.__version__, (24, 0))

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A complete data file.

    Attributes:
        path: Its path in the filesystem.
        size: Size in bytes.
        num_records: Number of rows.
        stats: Statistics as the JSON text for an ``add`` action.
    """

    path: str
    size: int
    num_records: int
    stats: str


class DataFileWriter:
    """Writes batches to one new Parquet file; if used as a context manager, an error inside the block leaves no file.

    Rows are buffered up to one row group. The file is created with the first row group, so that without rows there is no file.

    Args:
        filesystem: Where to write.
        path: Path of the new file: a name that no other attempt uses.
        schema: The table's schema without partition columns; with column mapping, columns are stored with physical names and
            ids. Columns of type void are left out, as Delta Lake does.
        compression: Parquet codec.
        row_group_rows: Most rows in a row group.
        row_group_bytes: Bytes of Arrow memory after which a row group ends.
        selection: Which columns get statistics.
        table: URI of the table, for errors.
    """

    def __init__(
        self,
        filesystem: pafs.FileSystem,
        path: str,
        schema: StructType,
        *,
        compression: str = "snappy",
        row_group_rows: int = _ROW_GROUP_ROWS,
        row_group_bytes: int = ROW_GROUP_BYTES,
        selection: StatisticsSelection = _DEFAULT_SELECTION,
        table: str = "the table",
    ) -> None:
        self._filesystem = filesystem
        self._path = path
        self._schema = storable(schema)
        self._arrow_schema = arrow_schema(self._schema)
        self._file_schema = writing_schema(self._schema)
        self._has_required_members = any(has_required_members(field.type) for field in self._file_schema)
        self._compression = compression
        self._row_group_rows = row_group_rows
        self._row_group_bytes = row_group_bytes
        self._selection = selection
        self._table = table
        self._observer = RowObserver(self._schema, selection)
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._sink: pa.NativeFile | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self._written: WrittenFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()
            return
        try:
            self.close()
        except BaseException:
            self.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; their columns are conformed to the schema (by name, with lossless casts).

        Raises:
            SchemaMismatchError: A column has another type.
            ConstraintViolatedError: A NOT NULL column contains NULL.
        """
        try:
            conformed = conform(batch, self._arrow_schema)
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(table=self._table, differences=(str(error),)) from error
        for field, column in zip(self._arrow_schema, conformed.columns, strict=True):
            if not field.nullable and column.null_count:
                raise ConstraintViolatedError(table=self._table, constraint=f"NOT NULL of {field.name}", rows=column.null_count)
        stored = conform(conformed, self._file_schema)
        self._observer.observe(stored)
        if self._has_required_members:
            stored = without_hidden_nulls(stored)
        position = 0
        while position < stored.num_rows:
            piece = stored.slice(position, self._row_group_rows - self._buffered_rows)
            position += piece.num_rows
            self._buffered.append(piece)
            self._buffered_rows += piece.num_rows
            self._buffered_bytes += piece.nbytes
            if self._buffered_rows >= self._row_group_rows or self._buffered_bytes >= self._row_group_bytes:
                self._flush()

    @property
    def flushed_bytes(self) -> int:
        """Bytes of the completed row groups: the size of the file so far, without buffered rows."""
        return 0 if self._sink is None else int(self._sink.tell())

    def close(self) -> WrittenFile | None:
        """Complete the file; returns None, and leaves no file, if there were no rows. A second call returns the same."""
        if self._buffered:
            self._flush()
        if self._sink is not None and self._written is None:
            footer = self._complete()
            size = self._sink.tell()
            self._sink.close()
            stats = footer_statistics(footer, self._described, self._selection, self._observer)
            self._written = WrittenFile(path=self._path, size=size, num_records=footer.num_rows, stats=stats)
        return self._written

    def abort(self) -> None:
        """Give up: leaves no file, and raises no error."""
        if self._sink is None:
            return
        if self._parquet is not None:
            with suppress(pa.ArrowException, OSError, RuntimeError):  # RuntimeError: a failed writer has no footer
                self._parquet.close()
        with suppress(pa.ArrowException, OSError):
            self._sink.close()
        with suppress(pa.ArrowException, OSError):
            self._filesystem.delete_file(self._path)

    def _flush(self) -> None:
        """Write the buffered rows as one row group."""
        rows = pa.Table.from_batches(self._buffered, self._file_schema)
        if self._sink is None:
            self._sink = self._filesystem.open_output_stream(self._path)
        try:
            self._write_row_group(rows, self._sink)
        except pa.ArrowInvalid as error:  # NULL inside a struct or list that does not allow it
            raise SchemaMismatchError(table=self._table, differences=(str(error),)) from error
        self._buffered, self._buffered_rows, self._buffered_bytes = [], 0, 0

    def _write_row_group(self, rows: pa.Table, sink: pa.NativeFile) -> None:
        if self._parquet is None:
            plain = without_repetition(rows)
            filters = self._filters(rows, self._schema, plain)
            self._parquet = parquet_writer(sink, self._schema, self._compression, self._footers, plain=plain, filters=filters)
        self._parquet.write_table(rows, row_group_size=self._row_group_rows)

    def _filters(self, rows: pa.Table, schema: StructType, plain: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        """The Bloom filters for a row group like this one, by physical name, as Arrow's options.

        Args:
            rows: The row group.
            schema: Its columns.
            plain: Columns in which values hardly repeat.
        """
        indexed = self._selection.indexed
        names = [physical_name(field) for field in indexed.fields(schema)]
        if names and not _WRITES_FILTERS:
            _log.warning("%s: no Bloom filters are written, as pyarrow %s has none; 24 has", self._table, pa.__version__)
            return {}
        items = {
            name: indexed.items or (len(rows) if name in plain else pc.count_distinct(rows[name]).as_py()) for name in names
        }
        return {
            name: {"ndv": min(max(1, count), indexed.most_items), "fpp": indexed.false_positives}
            for name, count in items.items()
        }

    def _complete(self) -> pq.FileMetaData:
        """Write the footer, and return it."""
        if self._parquet is not None:
            self._parquet.close()
        return self._footers[0]

    @property
    def _described(self) -> StructType:
        """The columns in the file."""
        return self._schema


def parquet_writer(
    sink: pa.NativeFile,
    schema: StructType,
    compression: str,
    footers: list[pq.FileMetaData] | None = None,
    *,
    plain: Collection[str] = (),
    filters: Mapping[str, Mapping[str, float]] | None = None,
) -> pq.ParquetWriter:
    """A writer of a Parquet file as Spark would write it.

    Args:
        sink: Where to write.
        schema: The columns, without void ones.
        compression: Parquet codec.
        footers: The footer is appended to this list when the file is complete.
        plain: Columns to write without a dictionary.
        filters: Columns that get Bloom filters, with Arrow's options for them.
    """
    columns = writing_schema(schema)
    writer = pq.ParquetWriter(
        sink,
        columns,
        compression=compression,
        use_dictionary=[path for path, name in _leaves(columns) if name not in plain] if plain else True,
        # Spark does not read Arrow's schema blob, and writes decimals as INT32/INT64, which it reads fastest.
        store_schema=False,
        store_decimal_as_integer=True,
        write_page_index=True,
        metadata_collector=footers,
        **({"bloom_filter_options": filters} if filters else {}),  # pyarrow 23 lacks this option
    )
    described = schema_json(physical_schema(schema)).encode()
    writer.add_key_value_metadata({SPARK_VERSION_KEY: _SPARK_VERSION, SPARK_SCHEMA_KEY: described})
    return writer


def _leaves(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """The paths of the leaves in a Parquet file, each with the name of its top-level column."""
    for field in schema:
        buffer = pa.BufferOutputStream()
        if pa.types.is_nested(field.type):
            pq.write_table(pa.schema([field]).empty_table(), buffer)
            found = pq.ParquetFile(pa.BufferReader(buffer.getvalue())).schema
            yield from ((found.column(at).path, field.name) for at in range(len(found)))
        else:
            yield field.name, field.name


def storable(schema: StructType) -> StructType:
    """The schema without columns that can only be NULL, for which Parquet has no type."""
    return StructType(
        tuple(
            replace(field, type=storable(field.type)) if isinstance(field.type, StructType) else field
            for field in schema.fields
            if field.type != VOID
        )
    )


def describe_file(
    filesystem: pafs.FileSystem,
    path: str,
    schema: StructType,
    selection: StatisticsSelection = _DEFAULT_SELECTION,
    *,
    table: str = "the table",
) -> WrittenFile:
    """Size, rows and statistics of a file that another engine (Spark) wrote, from its footer.

    Args:
        filesystem: Filesystem of the file.
        path: Path of the file in it.
        schema: The table's schema without partition columns.
        selection: Which columns get statistics.
        table: URI of the table, for errors.

    Raises:
        CorruptDataFileError: The file is missing or not Parquet.
    """

    def read() -> WrittenFile:
        with filesystem.open_input_file(path) as source:
            footer, size = pq.read_metadata(source), source.size()
        stats = footer_statistics(footer, schema, selection)
        return WrittenFile(path=path, size=size, num_records=footer.num_rows, stats=stats)

    return read_data(read, table=table, file=path)
