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

from airflow_delta.core.data_files.conform import conform, find_fields
from airflow_delta.core.data_files.legacy_calendar import holds_ancient_values, is_in_legacy_calendar
from airflow_delta.core.errors import CorruptDataFileError, LegacyCalendarError
from airflow_delta.core.schema import StructType, arrow_schema, physical_name, reading_schema, typed_values

ROW_INDEX = "__airflow_delta_row_index"
"""Name of the column of physical row positions (int64, from 0), the last one where it is asked for."""

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
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a data file in their order, as ``arrow_schema(schema)``; only the columns asked for are read.

    Memory is bounded by the batch, not by the file. Nothing is opened before the first batch is asked for.

    Args:
        filesystem: Where the file lies.
        path: The file, as the filesystem names it (not percent-encoded).
        schema: The columns wanted, in order, partition columns included; none at all gives batches that only count rows.
        partition_values: The file's partition values, as in the log, by physical name: these columns are never read from the
            file.
        batch_rows: Upper bound of the rows in a batch.
        by_id: Whether columns that have an id are found by it, at every level (column mapping in mode ``id``); otherwise they
            are found by their physical name, or when they have none by their name in any case.
        with_row_index: Whether a last column ``ROW_INDEX`` tells each row's position in the file.
        use_threads: Whether columns are decoded in parallel; Spark's workers own one core each.
        table: Name of the table, for errors.

    Raises:
        CorruptDataFileError: The file is missing, is no Parquet, or holds a column that cannot become the table's.
        LegacyCalendarError: It holds dates or times from before the Gregorian calendar, counted by the Julian one.
        InvalidPartitionValueError: A partition value is none of its column's type.
        UnsupportedTypeError: A column of a type that Arrow does not have.
    """
    target = arrow_schema(schema)
    constants = {
        each.name: typed_values(pa.array([partition_values[name]], pa.string()), each.type, column=each.name)[0]
        for each in schema.fields
        if (name := physical_name(each)) in partition_values
    }
    stored = reading_schema(StructType(tuple(each for each in schema.fields if each.name not in constants)))
    yielded = pa.schema([*target, _ROW_INDEX_FIELD]) if with_row_index else target
    first_row = 0
    try:
        opened = _DataFile(filesystem=filesystem, path=path, stored=stored, by_id=by_id, table=table)
        for batch in opened.batches(batch_rows, use_threads=use_threads):
            rows = batch.num_rows
            columns = [pa.repeat(constants[name], rows) if name in constants else batch.column(name) for name in target.names]
            if with_row_index:
                columns.append(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=first_row - 1))
            first_row += rows
            # Arrow forgets the number of rows when it makes a batch of no columns.
            yield pa.RecordBatch.from_arrays(columns, schema=yielded) if columns else batch
    except FileNotFoundError as error:
        raise CorruptDataFileError(table=table, file=path, detail="the file does not exist") from error
    except (pa.ArrowException, OSError, ValueError) as error:  # the last: names that are no text
        raise CorruptDataFileError(table=table, file=path, detail=str(error)) from error


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
        (30-45 MB; a dataset scan, which decodes row groups ahead, 200-340 MB) at the same CPU time. Far storage is asked for a
        row group's columns in few large requests instead.
        """
        is_local = isinstance(self.filesystem, pafs.LocalFileSystem)
        with (
            self.filesystem.open_input_file(self.path) as source,
            pq.ParquetFile(
                source,
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
            for batch in file.iter_batches(batch_size=batch_rows, columns=read, use_threads=use_threads):
                if is_legacy and holds_ancient_values(batch):
                    raise LegacyCalendarError(table=self.table, file=self.path)
                yield conform(batch, self.stored, by_id=self.by_id)


def _countable(schema: pa.Schema) -> list[str]:
    """The column that tells how many rows there are, the cheapest; a footer alone may say any number."""
    return sorted(schema.names, key=lambda name: pa.types.is_nested(schema.field(name).type))[:1]
