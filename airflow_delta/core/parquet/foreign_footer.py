"""The footer of an untrusted Parquet file, and which of its statistics Arrow may be asked for.

Arrow (26) aborts the process instead of raising when it is asked for the statistics, or just the description, of a column chunk
whose bounds do not have the length of its values, or whose histograms do not match the column's levels. When reading rows it
evaluates them, too, but raises then. So the bytes are checked first.

Specification: apache/parquet-format, src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_delta.core.parquet.compact_protocol import BINARY, I32, I64, STRUCT, Struct, Wanted, nested_structs

NOT_UNDERSTOOD: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What parsing an invalid footer may raise."""

_END_BYTES = 8  # length of the footer, and magic bytes
_FIRST_BYTES = 64 << 10  # bytes read at first; most footers are shorter
_MOST_BYTES = 32 << 20  # bytes; takes about five seconds, or half a minute for a maliciously made footer

_ROW_GROUPS, _COLUMNS = 4, 1
_META_DATA, _CRYPTO = 3, 8  # of ColumnChunk
_TYPE, _STATISTICS, _SIZE_STATISTICS = 1, 12, 16  # of ColumnMetaData
_BOUNDS = (1, 2, 5, 6)  # of Statistics; the first two only count if the footer has no column orders
_TEXT_BYTES, _REPETITION_LEVELS, _DEFINITION_LEVELS = 1, 2, 3  # of SizeStatistics

_WANTED = Wanted(
    {
        _CRYPTO: None,
        _META_DATA: Wanted(
            {
                _TYPE: None,
                _STATISTICS: Wanted(dict.fromkeys(_BOUNDS)),
                _SIZE_STATISTICS: Wanted(
                    dict.fromkeys((_TEXT_BYTES, _REPETITION_LEVELS, _DEFINITION_LEVELS)),
                    {_REPETITION_LEVELS: I64, _DEFINITION_LEVELS: I64},
                ),
                17: Wanted({}, {2: I32}),  # geospatial statistics
            },
            {2: I32, 3: BINARY, 8: STRUCT, 13: STRUCT},
        ),
    }
)
PHYSICAL_TYPES: Final = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_BYTE_ARRAY: Final = PHYSICAL_TYPES.index("BYTE_ARRAY")
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a value, by physical type."""


class Leaf(NamedTuple):
    """A leaf column.

    Attributes:
        type: Its physical type, as Parquet numbers it.
        length: Bytes of a ``FIXED_LEN_BYTE_ARRAY`` value.
        repetition: Maximum repetition level.
        definition: Maximum definition level.
    """

    type: int
    length: int | None
    repetition: int
    definition: int

    def has_readable_statistics(self, described: Struct) -> bool:
        """Whether the statistics in a ColumnMetaData, if any, match this column."""
        width = _WIDTHS.get(self.type, None if self.type == _BYTE_ARRAY else self.length)
        bounds: Struct = described[_STATISTICS].value if _STATISTICS in described else {}
        sizes: Struct = described[_SIZE_STATISTICS].value if _SIZE_STATISTICS in described else {}
        levels = {_REPETITION_LEVELS: self.repetition, _DEFINITION_LEVELS: self.definition}
        return (
            described[_TYPE].value == self.type
            and (width is None or all(len(bounds[bound].value) == width for bound in _BOUNDS if bound in bounds))
            and (self.type == _BYTE_ARRAY or _TEXT_BYTES not in sizes)
            and all(len(sizes[kind].value.values) in (0, most + 1) for kind, most in levels.items() if kind in sizes)
        )


@dataclass(frozen=True, eq=False)
class ForeignFooter:
    """The footer of a file.

    Attributes:
        content: Its bytes.
        metadata: Arrow's parsed form. Column chunks may only be accessed for leaf columns that are not ``unreadable``.
    """

    content: bytes
    metadata: pq.FileMetaData

    @classmethod
    def read(cls, source: pa.NativeFile) -> ForeignFooter:
        """Read the footer of a file, by one or two requests. Raises what Arrow raises for a file without a footer."""
        size = source.size()
        tail = source.read_at(min(size, _FIRST_BYTES), max(0, size - _FIRST_BYTES))
        length = int.from_bytes(tail[-_END_BYTES:-4], "little") + _END_BYTES
        if len(tail) < length <= size:
            tail = source.read_at(length, size - length)
        metadata = pq.read_metadata(pa.BufferReader(tail))
        return cls(tail[-length:-_END_BYTES], metadata)

    @cached_property
    def unreadable(self) -> frozenset[int]:
        """Indexes of the leaf columns with broken statistics in some row group, which Arrow must not be asked for."""
        schema = self.metadata.schema
        leaves = [_leaf(schema.column(number)) for number in range(self.metadata.num_columns)]
        readable = [0] * len(leaves)  # number of row groups
        try:
            if len(self.content) > _MOST_BYTES:
                raise ValueError("looking at it would take too long")
            for number, chunk in nested_structs(self.content, (_ROW_GROUPS, _COLUMNS), _WANTED):
                if _CRYPTO in chunk:
                    raise ValueError("a column is encrypted")
                readable[number] += leaves[number].has_readable_statistics(chunk[_META_DATA].value)
        except NOT_UNDERSTOOD:
            return frozenset(range(len(leaves)))
        return frozenset(number for number, groups in enumerate(readable) if groups != self.metadata.num_row_groups)


def _leaf(column: pq.ColumnSchema) -> Leaf:
    return Leaf(
        PHYSICAL_TYPES.index(column.physical_type), column.length, column.max_repetition_level, column.max_definition_level
    )
