"""What the statistics of files guarantee about the columns of a predicate.

The statistics are JSON texts in the log, one for each file: they are parsed in bulk, only for the columns requested, and
trusted only as far as every known writer keeps them:

- A timestamp is cut to the millisecond.
- The maximum of floats leaves NaN out with some writers, and NaN is the greatest value.
- A long string is cut; its maximum is a bound, not a value.
- A decimal of many digits went through a double with some writers. deltalake cuts whole ones to 64 bits.
- NULLs of lists and maps are counted by some as those of their elements. deltalake before 2026-07 counts the NULLs of elements,
  keys and values as those of the columns ``item``, ``key`` and ``value``.
- A column with bounds has a value, whatever the number of its NULLs is; bounds in the wrong order are ignored.
- What a float's digits say is near the float, so near the double that a widened column makes of it.
- Anything may be missing, or be no JSON at all. Then nothing is known; it is never an error.

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
_BYTES_OF_SLICE = 64 << 20  # of texts on average: those of one slice are joined, and Arrow joins no more than 2 GiB
_MILLISECOND = 1_000
_DIGITS_OF_DOUBLE = 15
_SLACK_OF_DOUBLE = 1e-15
_SLACK_OF_FLOAT = 1e-6
_SMALLEST_FLOAT = 1e-44
_LONG_LIMIT = float(1 << 63)
_TYPE_CHANGES = "delta.typeChanges"
_COUNTED_ELEMENTS = {(name,) for name in ("item", "element", "key", "value")}  # paths under which NULLs of elements are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """What is known about one column in each file; arrays with an element for each file.

    Attributes:
        low: No value is less; NULL where that is not known. None when it is known of no file (a type without an order).
        high: No value but NaN is greater; likewise.
        greatest: No value is greater, NaN included; likewise.
        no_null: Whether it is certain that no value is NULL.
        all_null: Whether it is certain that all are.
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
        is_empty: Whether it is certain that the file has no row.
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
    """A column as statistics know it.

    Attributes:
        path: Physical names, outermost first.
        kind: Its type today; files written before a widening have bounds of a narrower type.
        was_float: Whether a double was a float in older files.
        is_counted: Whether the number of its NULLs is believed.
    """

    path: tuple[str, ...]
    kind: DataType
    was_float: bool
    is_counted: bool


def _stored(schema: StructType, column: Column, *, has_elements: bool) -> _Stored:
    """The column that the schema, with lists or maps or not, has by this path. Raises ``KeyError`` for a path to nothing."""
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
    """How bounds of this type are read from JSON; None for a type without bounds."""
    if isinstance(kind, DecimalType):
        return pa.float64() if kind.precision > _DIGITS_OF_DOUBLE else arrow_type(kind)
    return arrow_type(kind) if kind in JSON_TYPES else pa.string() if kind in TEXT_TYPES else None


def _parsed(stats: pa.ChunkedArray, columns: Collection[_Stored]) -> pa.Table:
    """The statistics as nested columns, for these columns only; NULL wherever they are missing or unreadable."""
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
    """What lies inside of structs, at any depth, by path: at once, as Arrow looks at all members to find one."""
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
    """The bounds without those at the limit of 64 bits, beyond which there may be values."""
    return pc.if_else(pc.equal(bounds, limit), None, bounds)


def _outward(low: pa.ChunkedArray, high: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The bounds before they were cut to the millisecond: down, or towards the epoch as some writers cut times before it."""
    least, most = low.cast(pa.int64()), high.cast(pa.int64())
    least = pc.if_else(pc.less(least, 0), pc.subtract(least, _MILLISECOND), least)
    return least.cast(low.type), pc.add(most, _MILLISECOND).cast(high.type)


def _certain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(values, False)
