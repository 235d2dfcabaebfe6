"""Rewrites only some columns of a data file: the other columns are copied without decoding them.

This requires that the new file has the same number of rows, and that copied columns would be written the same way: see
``Footer.kept``. The columns written anew must have a fixed width, because a whole row group of them is held in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from airflow_delta.core.data_files.column_chunks import ChunkCopier, Footer
from airflow_delta.core.data_files.dictionaries import without_repetition
from airflow_delta.core.data_files.legacy_calendar import is_in_legacy_calendar
from airflow_delta.core.data_files.statistics_selection import StatisticsSelection
from airflow_delta.core.data_files.writer import ROW_GROUP_BYTES, DataFileWriter, parquet_writer, storable
from airflow_delta.core.parquet.foreign_footer import NOT_UNDERSTOOD
from airflow_delta.core.schema import DataType, StructType, arrow_type, physical_name
from airflow_delta.core.schema.char_columns import has_char
from airflow_delta.core.storage.storage_failures import read_data

_MOST_FOOTER_BYTES = 1 << 20  # larger footers would take more time to parse than they save
_BITS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptColumns:
    """The columns of a data file that are copied to another one.

    Attributes:
        source: The file.
        path: Path of the file, for errors.
        table: URI of the table, for errors.
        footer: Footer of the file.
        template: Footer of the new file, without rows.
        schema: All columns of the new file.
        rest: The columns that are not copied.
    """

    source: pa.NativeFile
    path: str
    table: str
    footer: Footer
    template: Footer
    schema: StructType
    rest: StructType

    @classmethod
    def of(
        cls,
        filesystem: pafs.FileSystem,
        path: str,
        schema: StructType,
        changed: Collection[str],
        *,
        compression: str,
        table: str,
    ) -> KeptColumns | None:
        """The columns to copy from this file; None if there are none, or the other columns would take too much memory.

        Args:
            filesystem: Filesystem of the file.
            path: Path of the file in it.
            schema: The table's schema, without partition columns.
            changed: Names of the columns that get new values.
            compression: Codec of the new file.
            table: URI of the table, for errors.

        Raises:
            As ``read_data``.
        """
        schema = storable(schema)
        same = [field for field in schema.fields if field.name not in changed and not has_char(field)]
        if not same or any(_width(field.type) is None for field in schema.fields if field.name in changed):
            return None
        source = read_data(lambda: filesystem.open_input_file(path), table=table, file=path)
        footer = read_data(lambda: _understood(source), table=table, file=path)
        if footer is None:
            return None
        template = _template(schema, compression)
        try:
            kept = footer.kept(template, compression)
            rows = footer.row_counts
            is_legacy = is_in_legacy_calendar(footer.key_values)
        except NOT_UNDERSTOOD:
            return None
        names = {physical_name(field) for field in same}.intersection(kept)
        if is_legacy or not names or min(rows, default=0) <= 0:
            return None
        rest = StructType(tuple(field for field in schema.fields if physical_name(field) not in names))
        widths = [_width(field.type) for field in rest.fields]
        if None in widths or max(rows) * sum(width or 0 for width in widths) > ROW_GROUP_BYTES * _BITS:
            return None
        return cls(
            source=source,
            path=path,
            table=table,
            footer=footer,
            template=template.with_columns({name: footer.columns[name] for name in names}),
            schema=schema,
            rest=rest,
        )

    def size(self) -> int:
        """Size of the file, in bytes."""
        return self.footer.size

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Read ``nbytes`` bytes from ``offset`` on. Raises as ``read_data``."""
        return read_data(lambda: self._bytes(nbytes, offset), table=self.table, file=self.path)

    def _bytes(self, nbytes: int, offset: int) -> bytes:
        content: bytes = self.source.read_at(nbytes, offset)
        if len(content) < nbytes:
            raise ValueError("it is shorter than it was")
        return content


class PartialFileWriter(DataFileWriter):
    """Writes the columns that are not copied, for all rows of the file that the others are copied from."""

    def __init__(
        self,
        filesystem: pafs.FileSystem,
        path: str,
        kept: KeptColumns,
        *,
        compression: str,
        selection: StatisticsSelection,
    ) -> None:
        """Store what to write.

        Args:
            filesystem: Where to write.
            path: Path of the new file: a name that no other attempt uses.
            kept: The columns that are copied.
            compression: Parquet codec.
            selection: Which columns get statistics.
        """
        super().__init__(
            filesystem,
            path,
            kept.rest,
            compression=compression,
            selection=selection,
            table=kept.table,
            row_group_rows=kept.footer.row_counts[0],
            row_group_bytes=sys.maxsize,
        )
        self._kept = kept
        self._copied = 0  # number of row groups
        self._copier: ChunkCopier | None = None

    def _write_row_group(self, rows: pa.Table, sink: pa.NativeFile) -> None:
        """Write the rows to a file in memory; its columns and the copied ones form the next row group."""
        if self._copier is None:
            self._copier = ChunkCopier(sink, self._kept.template)
        counts = self._kept.footer.row_counts
        if counts[self._copied : self._copied + 1] != [len(rows)]:
            raise ValueError(f"{self._path} is to have the rows of {self._kept.path}")
        buffer = pa.BufferOutputStream()
        plain = without_repetition(rows)
        filters = self._filters(rows, self._kept.rest, plain)
        with parquet_writer(buffer, self._kept.rest, self._compression, plain=plain, filters=filters) as writer:
            writer.write_table(rows, row_group_size=len(rows))
        written = pa.BufferReader(buffer.getvalue())
        new_footer = Footer.of(written)
        new = new_footer.chunks(new_footer.row_groups[0])
        former = self._kept.footer.chunks(self._kept.footer.row_groups[self._copied])
        names = map(physical_name, self._kept.schema.fields)
        self._copier.add_row_group(
            [(new[name], written) if name in new else (former[name], self._kept) for name in names], len(rows)
        )
        self._copied += 1
        if self._copied < len(counts):
            self._row_group_rows = counts[self._copied]

    def _complete(self) -> pq.FileMetaData:
        if self._copier is None or self._copied < len(self._kept.footer.row_groups):
            raise ValueError(f"{self._path} is to have the rows of {self._kept.path}")
        return self._copier.close()

    @property
    def _described(self) -> StructType:
        return self._kept.schema


def _understood(source: pa.NativeFile) -> Footer | None:
    try:
        return Footer.of(source, most_bytes=_MOST_FOOTER_BYTES)
    except NOT_UNDERSTOOD:  # the file's reader will report what is wrong
        return None


def _template(schema: StructType, compression: str) -> Footer:
    buffer = pa.BufferOutputStream()
    parquet_writer(buffer, schema, compression).close()
    return Footer.of(pa.BufferReader(buffer.getvalue()))


def _width(data_type: DataType) -> int | None:
    """Bits of each value; None for a type of variable width."""
    try:
        return int(arrow_type(data_type).bit_width)
    except ValueError:
        return None
