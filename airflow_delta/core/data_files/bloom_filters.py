"""The Bloom filters in a data file. The file is untrusted: a filter that is not exactly as specified counts as absent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from airflow_delta.core.data_files.conform import find_fields
from airflow_delta.core.data_files.legacy_calendar import is_in_legacy_calendar
from airflow_delta.core.data_files.stored_values import StoredType
from airflow_delta.core.parquet.bloom_filter import BloomFilter, read_filter
from airflow_delta.core.parquet.compact_protocol import BINARY, I32, I64, STRUCT, Struct, Wanted, nested_structs
from airflow_delta.core.parquet.foreign_footer import NOT_UNDERSTOOD, PHYSICAL_TYPES, ForeignFooter
from airflow_delta.core.schema import StructField, StructType, reading_schema
from airflow_delta.core.schema.data_types import DATE, TIMESTAMP, TIMESTAMP_NTZ

UNREADABLE: Final = (*NOT_UNDERSTOOD, pa.ArrowException, OSError)
"""What reading filters may raise; the file's filters are then unknown."""

_MOST_FOOTER_BYTES = 1 << 20  # larger footers take more time to parse than their filters save
_TAIL_BYTES = 8
_CALENDAR = (DATE, TIMESTAMP, TIMESTAMP_NTZ)

_ROW_GROUPS, _COLUMNS = 4, 1
_FILE_PATH, _META_DATA, _CRYPTO, _ENCRYPTED = 1, 3, 8, 9  # of ColumnChunk
_TYPE, _OFFSET, _LENGTH = 1, 14, 15  # of ColumnMetaData
_WANTED = Wanted(
    {
        _FILE_PATH: None,
        _CRYPTO: None,
        _ENCRYPTED: None,
        _META_DATA: Wanted(dict.fromkeys((_TYPE, _OFFSET, _LENGTH)), {2: I32, 3: BINARY, 8: STRUCT, 13: STRUCT}),
    }
)


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column of a file that has filters.

    Attributes:
        leaf: Index of the column among the file's leaf columns.
        type: How the file stores its values.
    """

    leaf: int
    type: StoredType


@dataclass(frozen=True, slots=True, eq=False)
class RowGroupFilters:
    """The filters of one row group; each is read on first use, and kept.

    Attributes:
        source: The file.
        chunks: The ColumnChunk of each column.
        end: Offset at which the footer begins.
    """

    source: pa.NativeFile
    chunks: Sequence[Struct]
    end: int
    _found: dict[int, BloomFilter | None] = field(default_factory=dict)

    def filter(self, column: IndexedColumn) -> BloomFilter | None:
        """The filter of a column; None if there is no valid one."""
        if column.leaf not in self._found:
            self._found[column.leaf] = None
            with suppress(*UNREADABLE):
                self._found[column.leaf] = self._read(column)
        return self._found[column.leaf]

    def _read(self, column: IndexedColumn) -> BloomFilter:
        chunk = self.chunks[column.leaf]
        if {_FILE_PATH, _CRYPTO, _ENCRYPTED} & chunk.keys():
            raise ValueError("the column lies elsewhere, or is encrypted")
        described: Struct = chunk[_META_DATA].value
        if described[_TYPE].value != PHYSICAL_TYPES.index(column.type.physical) or described[_OFFSET].kind != I64:
            raise ValueError("the filter is not one of this column")
        length = described[_LENGTH].value if _LENGTH in described else None
        return BloomFilter.parse(read_filter(self.source.read_at, described[_OFFSET].value, length, self.end))


@dataclass(frozen=True, slots=True, eq=False)
class FileBloomFilters:
    """The filters of a data file.

    Attributes:
        columns: The requested columns that the file has, by their names in the table.
        row_groups: The filters of each row group; at least one.
    """

    columns: dict[str, IndexedColumn]
    row_groups: Sequence[RowGroupFilters]

    @classmethod
    def read(cls, source: pa.NativeFile, fields: Sequence[StructField], *, by_id: bool = False) -> FileBloomFilters:
        """Find the filters of these columns. Takes one or two requests, and one more for each filter that is used.

        Args:
            source: The file.
            fields: Columns of the table.
            by_id: As of ``open_data_file``.

        Raises:
            One of ``UNREADABLE``: It is unknown which filters the file has.
        """
        footer = ForeignFooter.read(source)
        end = source.size() - _TAIL_BYTES - len(footer.content)
        if len(footer.content) > _MOST_FOOTER_BYTES:
            raise ValueError("looking at the footer would take too long")
        groups = [RowGroupFilters(source, chunks, end) for chunks in _row_groups(footer.content, footer.metadata.num_columns)]
        if not groups or len(groups) != footer.metadata.num_row_groups:
            raise ValueError(f"{len(groups)} row groups where the footer counts {footer.metadata.num_row_groups}")
        return cls(_columns(footer, fields, by_id=by_id), groups)


def _row_groups(content: bytes, columns: int) -> Iterator[list[Struct]]:
    """The column chunks of each row group."""
    chunks: list[Struct] = []
    for _, chunk in nested_structs(content, (_ROW_GROUPS, _COLUMNS), _WANTED):
        chunks.append(chunk)
        if len(chunks) == columns:
            yield chunks
            chunks = []
    if chunks:
        raise ValueError("a row group lacks columns")


def _columns(footer: ForeignFooter, fields: Sequence[StructField], *, by_id: bool) -> dict[str, IndexedColumn]:
    """The columns with plain values, matched as readers of rows match them."""
    parquet, arrow = footer.metadata.schema, footer.metadata.schema.to_arrow_schema()
    wanted = reading_schema(StructType(tuple(fields)))
    is_legacy = is_in_legacy_calendar(footer.metadata.metadata or {})
    leaves: dict[str, list[int]] = {}
    for number in range(footer.metadata.num_columns):
        column = parquet.column(number)
        if column.path == column.name and not column.max_repetition_level:
            leaves.setdefault(column.name, []).append(number)
    found: dict[str, IndexedColumn] = {}
    for column, position in zip(fields, find_fields(arrow, wanted, by_id=by_id), strict=True):
        numbers = [] if position is None else leaves.get(arrow.field(position).name, [])
        if len(numbers) == 1 and not (is_legacy and column.type in _CALENDAR):
            found[column.name] = IndexedColumn(numbers[0], StoredType.of(parquet.column(numbers[0])))
    return found
