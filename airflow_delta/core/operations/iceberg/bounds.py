"""Column bounds for Iceberg readers, from Delta's statistics, so that they open only files that a filter cannot exclude.

Delta's statistics are bounds, not exact values: strings are truncated, and timestamps are cut to milliseconds. Iceberg's are
bounds, too, but some of its readers take them for exact minima and maxima; see ``NOT_EXACT``.
Specification: https://iceberg.apache.org/spec/, "Manifests", ``lower_bounds``; "Appendix D: Single-value serialization".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.predicate.expression import Column
from airflow_delta.core.predicate.file_statistics import ColumnBounds, file_statistics
from airflow_delta.core.schema import DecimalType, StructType, field_id
from airflow_delta.core.schema.data_types import BYTE, DATE, INTEGER, LONG, SHORT, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType

MOST_COLUMNS: Final = 32
"""Columns that have bounds, as many as Delta collects statistics for by default."""

NOT_EXACT: Final = {"write.metadata.metrics.default": "counts"}
"""Table properties that keep readers from answering ``min`` and ``max`` from the bounds."""

_FOUR_BYTES = {BYTE, SHORT, INTEGER, DATE}
_EIGHT_BYTES = {LONG, TIMESTAMP, TIMESTAMP_NTZ}
_MOST_DIGITS = 15  # more digits of a decimal may have been rounded by writers that convert to double
_MOST_TEXT = 256
"""Bytes of a string; longer ones, which only other writers leave uncut, are not used as bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBounds:
    """Column statistics of one file, by column id.

    Attributes:
        lower: Lower bounds: no value is less.
        upper: Upper bounds: no value is greater.
        nulls: Number of NULLs, where either none or all values are NULL.
        values: Number of values, for columns that are all NULL.
    """

    lower: dict[int, bytes] = field(default_factory=dict)
    upper: dict[int, bytes] = field(default_factory=dict)
    nulls: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)


def bounded_columns(schema: StructType, partition_columns: Iterable[str]) -> dict[Column, tuple[int, DataType]]:
    """The columns with bounds, with their ids and types: the first ``MOST_COLUMNS``, including fields of structs."""
    found = dict(_leaves(schema.without(tuple(partition_columns)), ()))
    return dict(list(found.items())[:MOST_COLUMNS])


def _leaves(schema: StructType, above: tuple[str, ...]) -> Iterator[tuple[Column, tuple[int, DataType]]]:
    for each in schema.fields:
        path, number = (*above, each.name), field_id(each)
        if isinstance(each.type, StructType):
            yield from _leaves(each.type, path)
        elif number is not None and _has_bounds(each.type):
            yield Column(path[0], path[1:]), (number, each.type)


def _has_bounds(kind: DataType) -> bool:
    """Whether all Iceberg readers order the type's values alike; not floats, as readers differ on NaN and -0."""
    if isinstance(kind, DecimalType):
        return kind.precision <= _MOST_DIGITS
    return kind == STRING or kind in _FOUR_BYTES or kind in _EIGHT_BYTES


def bounds_of_files(
    stats: pa.ChunkedArray, records: list[int], schema: StructType, columns: Mapping[Column, tuple[int, DataType]]
) -> list[FileBounds]:
    """The bounds of each file.

    Args:
        stats: Statistics as JSON texts, as in the log.
        records: Number of rows in each file.
        schema: The table's schema.
        columns: As ``bounded_columns`` returns them.
    """
    made = [FileBounds() for _ in records]
    known = file_statistics(stats, schema, columns).columns
    for column, (number, kind) in columns.items():
        _add(made, records, number, kind, known[column])
    return made


def _add(made: list[FileBounds], records: list[int], number: int, kind: DataType, bounds: ColumnBounds) -> None:
    low, high = _serialized(bounds.low, kind), _serialized(bounds.high, kind)
    no_null, all_null = _booleans(bounds.no_null), _booleans(bounds.all_null)
    for file, rows, least, most, has_none, has_only in zip(made, records, low, high, no_null, all_null, strict=True):
        if least is not None and most is not None:
            file.lower[number], file.upper[number] = least, most
        if has_none:
            file.nulls[number] = 0
        elif has_only:
            file.nulls[number] = file.values[number] = rows


def _booleans(values: pa.Array | pa.ChunkedArray) -> list[bool | None]:
    found: list[bool | None] = values.to_pylist()
    return found


def _serialized(values: pa.Array | pa.ChunkedArray, kind: DataType) -> list[bytes | None]:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(kind, DecimalType):
        return [None if value is None else _unscaled(value, kind.scale) for value in array.to_pylist()]
    if kind == STRING:
        array = array.cast(pa.binary())
        texts: list[bytes | None] = pc.if_else(pc.less_equal(pc.binary_length(array), _MOST_TEXT), array, None).to_pylist()
        return texts
    integer, width = (pa.int32(), 4) if kind in _FOUR_BYTES else (pa.int64(), 8)
    integers = array.cast(integer).view(pa.binary(width))
    found: list[bytes | None] = integers.to_pylist()  # little-endian, as in Arrow on every platform
    return found


def _unscaled(value: Decimal, scale: int) -> bytes:
    """The unscaled value as big-endian two's complement, in as few bytes as possible."""
    number = int(value.scaleb(scale))
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
