"""Estimates the bytes that rows take."""

from __future__ import annotations

from operator import add

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.log.record_counts import NUM_RECORDS, with_record_counts
from airflow_delta.core.schema import ArrayType, DataType, DecimalType, MapType, StructType
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
)
from airflow_delta.spark.folded import folded
from airflow_delta.spark.schema_conversion import quoted

_WIDTHS: dict[DataType, int] = {BOOLEAN: 1, BYTE: 1, SHORT: 2, INTEGER: 4, DATE: 4, FLOAT: 4}
_FIXED = frozenset((*_WIDTHS, LONG, DOUBLE, TIMESTAMP, TIMESTAMP_NTZ))
_WIDTH, _TEXT_WIDTH, _ITEMS = 8, 16, 4
_WIDE_DECIMAL = 18
_FILES, _LEAST_ROWS = 1_000, 1_000
_MOST_LEVELS = 3
"""Nesting depth up to which values are measured, as Spark Connect accepts no expression of a hundred levels."""
_MOST_COUNTED = 64
"""Most columns of variable length that are measured; with more, Spark would generate a too complex expression."""


def stored_row_bytes(files: pa.Table) -> float | None:
    """Bytes of a row in data files, from the first of these files; None if they have too few rows to tell.

    Args:
        files: Columns ``size``, and ``NUM_RECORDS`` or ``stats``.
    """
    counted = with_record_counts(files.slice(0, _FILES), ["size", NUM_RECORDS.name])
    counted = counted.filter(counted[NUM_RECORDS.name].is_valid())
    rows, size = (pc.sum(counted[name]).as_py() or 0 for name in (NUM_RECORDS.name, "size"))
    return max(1.0, size / rows) if rows >= _LEAST_ROWS else None


def row_bytes(schema: StructType) -> Column:
    """Approximate bytes of a Spark row in memory, measuring values of variable length. In a file it takes less."""
    counted = [field for field in schema.fields if not _is_fixed(field.type)][:_MOST_COUNTED]
    rest = StructType(tuple(field for field in schema.fields if field not in counted))
    sizes = (_value_bytes(F.col(quoted(field.name)), field.type) for field in counted)
    return folded(add, [F.lit(row_width(rest)), *sizes])


def _value_bytes(value: Column, data_type: DataType, levels: int = _MOST_LEVELS) -> Column:
    match data_type:
        case StructType() | ArrayType() | MapType() if not levels:
            return F.lit(row_width(data_type))
        case StructType(fields):
            members = (_value_bytes(value.getField(field.name), field.type, levels - 1) for field in fields)
            return folded(add, [F.lit(0), *members])
        case ArrayType(element):
            return _item_bytes(value, element, levels)
        case MapType(key, item):
            return _item_bytes(F.map_keys(value), key, levels) + _item_bytes(F.map_values(value), item, levels)
        case _ if data_type in (STRING, BINARY):
            return F.coalesce(F.octet_length(value), F.lit(0))
        case _ if data_type == VARIANT:
            return F.coalesce(F.octet_length(value.cast("string")), F.lit(0))
        case _:
            return F.lit(row_width(data_type))


def _item_bytes(items: Column, data_type: DataType, levels: int) -> Column:
    if _is_fixed(data_type):
        size = F.array_size(items) * row_width(data_type)
    else:
        zero = F.lit(0).cast("long")
        size = F.aggregate(items, zero, lambda total, item: total + _value_bytes(item, data_type, levels - 1))
    return F.coalesce(size, F.lit(0))


def _is_fixed(data_type: DataType) -> bool:
    match data_type:
        case StructType(fields):
            return all(_is_fixed(field.type) for field in fields)
        case _:
            return data_type in _FIXED or isinstance(data_type, DecimalType)


def is_of_fixed_width(schema: StructType) -> bool:
    """Whether ``row_width`` is exact for the schema: no column contains strings or other values of variable length."""
    return all(field.type in _FIXED or isinstance(field.type, DecimalType) for field in schema.fields)


def row_width(data_type: DataType) -> int:
    """Bytes of a value in memory; for a schema, of a row."""
    match data_type:
        case StructType(fields):
            return sum(row_width(field.type) for field in fields) or 1
        case ArrayType(element):
            return _ITEMS * row_width(element)
        case MapType(key, value):
            return _ITEMS * (row_width(key) + row_width(value))
        case DecimalType(precision):
            return _TEXT_WIDTH if precision > _WIDE_DECIMAL else _WIDTH
        case _ if data_type in (STRING, BINARY):
            return _TEXT_WIDTH
        case _:
            return _WIDTHS.get(data_type, _WIDTH)
