"""Reading one data file as the table's rows.

A file keeps the schema of the day it was written; readers see the table's: columns found by name or id, missing ones NULL,
types widened, partition columns from the log, everything else in the file ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from airflow_delta.core.backoff import Backoff
from airflow_delta.core.data_files.batch_sizes import BatchSizes, next_batch
from airflow_delta.core.data_files.conform import conform, find_fields
from airflow_delta.core.data_files.legacy_calendar import holds_ancient_values, is_in_legacy_calendar
from airflow_delta.core.errors import LegacyCalendarError
from airflow_delta.core.parquet.foreign_footer import ForeignFooter
from airflow_delta.core.schema import StructType, arrow_schema, physical_name, reading_schema
from airflow_delta.core.schema.char_columns import paddings
from airflow_delta.core.schema.partition_values import partition_column
from airflow_delta.core.storage.cached_data_files import cached_file, footer_source
from airflow_delta.core.storage.storage_failures import DATA_READS, data_failure, is_to_be_repeated

ROW_INDEX = "__airflow_delta_row_index"
"""Name of the column of physical row positions (int64, from 0), the last one where it is requested."""

_ROW_INDEX_FIELD = pa.field(ROW_INDEX, pa.int64(), nullable=False)
_BATCH_ROWS = 32_768
_BUFFER_BYTES = 1 << 20


def open_data_file(
    filesystem: pafs.FileSystem,
    path: str,
    schema: StructType,
    partition_values: Mapping[str, str | None],
    *,
    batch_rows: int = _BATCH_ROWS,
    by_id: bool = False,
    with_row_index: bool = False,
    use_threads: bool = False,
    table: str = "the table",
    backoff: Backoff = DATA_READS,
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a data file in their order, as ``arrow_schema(schema)``; only the columns requested are read.

    Columns of type CHAR are padded, as in Spark.

    Memory is bounded by the batch, not by the file. Nothing is opened before the first batch is requested.

    Args:
        filesystem: Where the file lies.
        path: The file, as the filesystem names it (not percent-encoded).
        schema: The columns wanted, in order, partition columns included; none at all gives batches that only count rows.
        partition_values: The file's partition values, as in the log, by physical name: these columns are never read from the
            file.
        batch_rows: Upper bound of the rows in a batch, which is smaller where rows are large: see ``batch_sizes``.
        by_id: Whether columns that have an id are found by it, at every level (column mapping in mode ``id``); otherwise they
            are found by their physical name, or when they have none by their name in any case.
        with_row_index: Whether a last column ``ROW_INDEX`` holds each row's position in the file.
        use_threads: Whether columns are decoded in parallel; Spark's workers own one core each.
        table: Name of the table, for errors.
        backoff: How often the file is opened again, to go on at the row reached, while the storage does not answer.

    Raises:
        CorruptDataFileError: The file is missing, is not Parquet, or holds a column that cannot become the table's.
        StorageAccessError: The storage refuses, or the credentials have expired.
        StorageUnavailableError: It did not answer any of the tries.
        LegacyCalendarError: It holds dates or times from before the Gregorian calendar, counted by the Julian one.
        InvalidPartitionValueError: A partition value is not of its column's type.
        UnsupportedTypeError: A column of a type that Arrow does not have.
    """
    target = arrow_schema(schema)
    constants = {
        field.name: partition_column(pa.array([partition_values[name]], pa.string()), field)[0]
        for field in schema.fields
        if (name := physical_name(field)) in partition_values
    }
    stored = reading_schema(StructType(tuple(field for field in schema.fields if field.name not in constants)))
    padded = [(target.get_field_index(name), padding) for name, padding in paddings(schema).items() if name not in constants]
    yielded = pa.schema([*target, _ROW_INDEX_FIELD]) if with_row_index else target
    opened = _DataFile(filesystem=filesystem, path=path, stored=stored, by_id=by_id, table=table)
    first_row = 0
    for batch in _with_retries(opened, batch_rows, backoff, use_threads=use_threads):
        rows = batch.num_rows
        columns = [pa.repeat(constants[name], rows) if name in constants else batch.column(name) for name in target.names]
        for position, padding in padded:
            columns[position] = padding.pad(columns[position])
        if with_row_index:
            columns.append(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=first_row - 1))
        first_row += rows
        # Arrow forgets the number of rows when it makes a batch of no columns.
        yield pa.RecordBatch.from_arrays(columns, schema=yielded) if columns else batch


def _with_retries(opened: _DataFile, batch_rows: int, backoff: Backoff, *, use_threads: bool) -> Iterator[pa.RecordBatch]:
    """The batches of the file; where the storage stops answering, it is reopened and the rows already read are skipped."""
    rows = 0
    for number in backoff.numbers():
        position = 0
        try:
            for batch in opened.batches(batch_rows, use_threads=use_threads):
                position += batch.num_rows
                if position > rows:  # a file does not change, so its batches are the same again
                    rows = position
                    yield batch
        except Exception as error:
            failure = data_failure(error, table=opened.table, file=opened.path)
            if failure is None:
                raise
            if not is_to_be_repeated(failure, number, backoff):
                raise failure from error
        else:
            return


def read_footer(filesystem: pafs.FileSystem, path: str) -> ForeignFooter:
    """The footer of a Parquet file. Raises what Arrow raises: see ``storage_failures.read_data``."""
    with filesystem.open_input_file(path) as source:
        return ForeignFooter.read(footer_source(filesystem, path, source))


@dataclass(frozen=True, slots=True, kw_only=True)
class _DataFile:
    """A file, and what is wanted of the columns that it holds itself."""

    filesystem: pafs.FileSystem
    path: str
    stored: pa.Schema
    by_id: bool
    table: str

    def batches(self, batch_rows: int, *, use_threads: bool) -> Iterator[pa.RecordBatch]:
        """The rows, conformed.

        Of all ways to read a row group of 2.5 M rows x 8 columns (98 MB), batches over a buffered stream take the least memory
        (30-45 MB; a dataset scan, which decodes row groups ahead, 200-340 MB) at the same CPU time. Far storage is requested a
        row group's columns in few large requests instead.
        """
        is_local = isinstance(self.filesystem, pafs.LocalFileSystem)
        with (
            self.filesystem.open_input_file(self.path) as source,
            pq.ParquetFile(
                cached_file(self.filesystem, self.path, source),
                metadata=self._known_metadata(source),
                buffer_size=_BUFFER_BYTES if is_local else 0,
                pre_buffer=not is_local,
                coerce_int96_timestamp_unit="us",
            ) as file,
        ):
            available = file.schema_arrow
            found = find_fields(available, self.stored, by_id=self.by_id)
            names = [available.field(index).name for index in found if index is not None]
            is_legacy = bool(names) and is_in_legacy_calendar(file.metadata.metadata or {})
            read = names or _countable(available)
            sizes, position = BatchSizes(file.metadata, read), 0
            rows = sizes.next_rows(0, batch_rows)
            for batch in file.iter_batches(batch_size=rows, columns=read, use_threads=use_threads):
                if is_legacy and holds_ancient_values(batch):
                    raise LegacyCalendarError(table=self.table, file=self.path)
                position += batch.num_rows
                file.reader.set_batch_size(sizes.next_rows(position, min(batch_rows, next_batch(batch))))
                yield conform(batch, self.stored, by_id=self.by_id)

    def _known_metadata(self, source: pa.NativeFile) -> pq.FileMetaData | None:
        """What the footer says, where it may lie on disk; None where Arrow reads it as well itself."""
        end = footer_source(self.filesystem, self.path, source)
        return None if end is source else ForeignFooter.read(end).metadata


def _countable(schema: pa.Schema) -> list[str]:
    """The column to count rows by, the cheapest; a footer alone may say any number."""
    return sorted(schema.names, key=lambda name: pa.types.is_nested(schema.field(name).type))[:1]
