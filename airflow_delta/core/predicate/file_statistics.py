"""What the statistics of files guarantee about the columns of a predicate.

The statistics are JSON texts in the log, one for each file. They are parsed in bulk, only for the columns requested, and
trusted only as far as every known writer gets them right:

- Timestamps are truncated to milliseconds.
- Some writers leave NaN, the greatest value, out of the maximum of floats.
- Long strings are truncated; their maximum is a bound, not a value.
- Some writers convert decimals of many digits to double. deltalake cuts integral ones to 64 bits.
- Some writers count NULLs of lists and maps as those of their elements. deltalake before 2026-07 reports the NULLs of elements,
  keys and values as those of the columns ``item``, ``key`` and ``value``.
- A column with bounds has a value, whatever its NULL count is; bounds in the wrong order are ignored.
- The digits of a float are only close to the float, and so to the double in a widened column.
- Anything may be missing or invalid. Then nothing is known; it is never an error.

Protocol: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.predicate.expression import Column
from airflow_delta.core.schema.arrow_conversion import arrow_type
from airflow_delta.core.schema.column_mapping import physical_name
from airflow_delta.core.schema.data_types import (
    DOUBLE,
    FLOAT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from airflow_delta.core.schema.lenient_parsing import (
    JSON_TYPES,
    TEXT_TYPES,
    is_object,
    nested_type,
    parse_leniently,
    read_objects,
    typed_leniently,
    without_special_floats,
)

_ROWS_OF_SLICE = 1 << 16
_BYTES_OF_SLICE = 64 << 20  # bytes of texts, on average; the texts of a slice are joined, and Arrow joins at most 2 GiB
_MILLISECOND = 1_000
_DIGITS_OF_DOUBLE = 15
_SLACK_OF_DOUBLE = 1e-15
_SLACK_OF_FLOAT = 1e-6
_SMALLEST_FLOAT = 1e-44
_LONG_LIMIT = float(1 << 63)
_TYPE_CHANGES = "delta.typeChanges"
_COUNTED_ELEMENTS = {(name,) for name in ("item", "element", "key", "value")}  # under which element NULLs are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """What is known about one column in each file; arrays with an element for each file.

    Attributes:
        low: Lower bound of all values; NULL if unknown. None if unknown for all files (a type without an order).
        high: Upper bound of all values except NaN; likewise.
        greatest: Upper bound of all values including NaN; likewise.
        no_null: Whether certainly no value is NULL.
        all_null: Whether certainly all values are NULL.
    """

    low: Any
    high: Any
    greatest: Any
    no_null: Any
    all_null: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """The statistics of files, for some columns.

    Attributes:
        is_empty: Whether the file certainly has no rows.
        columns: Bounds by column.
    """

    is_empty: Any
    columns: dict[Column, ColumnBounds]


def file_statistics(stats: pa.ChunkedArray, schema: StructType, columns: Iterable[Column]) -> FileStatistics:
    """The statistics of files.

    Args:
        stats: JSON texts as in the log; NULL where there are none.
        schema: The table's schema.
        columns: The columns wanted.
    """
    has_elements = any(isinstance(field.type, ArrayType | MapType) for field in schema.fields)
    stored = {column: _stored(schema, column, has_elements=has_elements) for column in columns}
    parsed = _leaves(_parsed(stats, stored.values()))
    records = parsed["numRecords",]
    return FileStatistics(
        is_empty=_certain(pc.equal(records, 0)),
        columns={column: _bounds(parsed, stored_column, records) for column, stored_column in stored.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """A column in the statistics.

    Attributes:
        path: Physical names, outermost first.
        kind: Its current type; files written before a widening have bounds of a narrower type.
        was_float: Whether the column is double now, and float in older files.
        is_counted: Whether its NULL count is trusted.
    """

    path: tuple[str, ...]
    kind: DataType
    was_float: bool
    is_counted: bool


def _stored(schema: StructType, column: Column, *, has_elements: bool) -> _Stored:
    """The column at this path in a schema with or without lists and maps. Raises ``KeyError`` if it does not exist."""
    fields: list[StructField] = []
    scope: DataType = schema
    for name in column.path:
        field = scope.find(name) if isinstance(scope, StructType) else None
        if field is None:
            raise KeyError(".".join(column.path))
        fields.append(field)
        scope = field.type
    was_float = scope == DOUBLE and _TYPE_CHANGES in fields[-1].metadata
    path = tuple(map(physical_name, fields))
    is_counted = not isinstance(scope, ArrayType | MapType | StructType) and not (has_elements and path in _COUNTED_ELEMENTS)
    return _Stored(path=path, kind=scope, was_float=was_float, is_counted=is_counted)


# -- parsing


def _json_type(kind: DataType) -> pa.DataType | None:
    """The Arrow type for reading bounds of this type from JSON; None for a type without bounds."""
    if isinstance(kind, DecimalType):
        return pa.float64() if kind.precision > _DIGITS_OF_DOUBLE else arrow_type(kind)
    return arrow_type(kind) if kind in JSON_TYPES else pa.string() if kind in TEXT_TYPES else None


def _parsed(stats: pa.ChunkedArray, columns: Collection[_Stored]) -> pa.Table:
    """The statistics of these columns as nested Arrow columns; NULL where missing or unreadable."""
    bounds = nested_type({column.path: json_type for column in columns if (json_type := _json_type(column.kind))})
    counts = nested_type({column.path: pa.int64() for column in columns if column.is_counted})
    schema = pa.schema([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)])
    has_floats = any(column.kind in (FLOAT, DOUBLE) for column in columns)
    tables = [schema.empty_table()]
    rows = min(_ROWS_OF_SLICE, max(1, len(stats) * _BYTES_OF_SLICE // max(1, stats.nbytes)))
    for start in range(0, len(stats), rows):
        texts = pa.concat_arrays(stats.slice(start, rows).chunks)
        texts = pc.if_else(is_object(texts), texts, "{}")
        tables += _read_objects(without_special_floats(texts) if has_floats else texts, schema)
    return pa.concat_tables(tables)


def _leaves(columns: pa.Table | pa.ChunkedArray) -> dict[tuple[str, ...], pa.ChunkedArray]:
    """The leaves inside of structs by path; collected at once, as Arrow flattens all fields to find one."""
    fields, members = (columns.schema, columns.columns) if isinstance(columns, pa.Table) else (columns.type, columns.flatten())
    found: dict[tuple[str, ...], pa.ChunkedArray] = {}
    for field, member in zip(fields, members, strict=True):
        if pa.types.is_struct(field.type):
            found |= {(field.name, *path): leaf for path, leaf in _leaves(member).items()}
        else:
            found[field.name,] = member
    return found


def _read_objects(texts: pa.Array, schema: pa.Schema) -> list[pa.Table]:
    def nulls(rows: int) -> pa.Table:
        return pa.table([pa.nulls(rows, field.type) for field in schema], schema=schema)

    return parse_leniently(texts, lambda piece: read_objects(piece, schema), nulls)


# -- trusting


def _bounds(parsed: Mapping[tuple[str, ...], pa.ChunkedArray], column: _Stored, records: pa.ChunkedArray) -> ColumnBounds:
    rows, kind = len(records), column.kind
    nulls = parsed["nullCount", *column.path] if column.is_counted else pa.nulls(rows, pa.int64())
    no_null, all_null = _certain(pc.equal(nulls, 0)), _certain(pc.equal(nulls, records))
    if _json_type(kind) is None:
        return ColumnBounds(low=None, high=None, greatest=None, no_null=no_null, all_null=all_null)
    low, high = (parsed[name, *column.path] for name in ("minValues", "maxValues"))
    all_null = pc.and_(all_null, pc.and_(pc.is_null(low), pc.is_null(high)))
    if kind in TEXT_TYPES:
        low, high = typed_leniently(low.combine_chunks(), kind), typed_leniently(high.combine_chunks(), kind)
    is_contradiction = _certain(pc.greater(low, high))
    if pc.any(is_contradiction).as_py():
        low, high = (pc.if_else(is_contradiction, None, bound) for bound in (low, high))
    if kind in (TIMESTAMP, TIMESTAMP_NTZ):
        low, high = _outward(low, high)
    if isinstance(kind, DecimalType) and kind.precision > _DIGITS_OF_DOUBLE:
        low, high = _unless(low, -_LONG_LIMIT), _unless(high, _LONG_LIMIT)
    if column.was_float or (isinstance(kind, DecimalType) and kind.precision > _DIGITS_OF_DOUBLE):
        slack = _SLACK_OF_FLOAT if column.was_float else _SLACK_OF_DOUBLE
        low = pc.subtract(low, pc.add(pc.multiply(pc.abs(low), slack), _SMALLEST_FLOAT))
        high = pc.add(high, pc.add(pc.multiply(pc.abs(high), slack), _SMALLEST_FLOAT))
    greatest = pa.nulls(rows, arrow_type(kind)) if kind in (FLOAT, DOUBLE) else high
    return ColumnBounds(low=low, high=high, greatest=greatest, no_null=no_null, all_null=all_null)


def _unless(bounds: pa.ChunkedArray, limit: float) -> pa.ChunkedArray:
    """The bounds without those at the 64-bit limit, beyond which there may be values."""
    return pc.if_else(pc.equal(bounds, limit), None, bounds)


def _outward(low: pa.ChunkedArray, high: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The bounds before truncation to milliseconds, which rounds down, or with some writers towards the epoch."""
    least, most = low.cast(pa.int64()), high.cast(pa.int64())
    least = pc.if_else(pc.less(least, 0), pc.subtract(least, _MILLISECOND), least)
    return least.cast(low.type), pc.add(most, _MILLISECOND).cast(high.type)


def _certain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(values, False)
