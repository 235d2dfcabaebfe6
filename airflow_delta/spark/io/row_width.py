"""About how many bytes rows take, where they were not counted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

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
)

_WIDTHS: dict[DataType, int] = {BOOLEAN: 1, BYTE: 1, SHORT: 2, INTEGER: 4, DATE: 4, FLOAT: 4}
_FIXED = frozenset((*_WIDTHS, LONG, DOUBLE, TIMESTAMP, TIMESTAMP_NTZ))
_WIDTH, _TEXT_WIDTH, _ITEMS = 8, 16, 4
_WIDE_DECIMAL = 18
_FILES = 1_000


def stored_row_bytes(files: pa.Table, schema: StructType) -> float:
    """Bytes of a row in data files: as in the first of some that a table has, else as wide as its types.

    A type's width in memory is more than what a file takes for it.

    Args:
        files: Columns ``size``, and ``NUM_RECORDS`` or ``stats``.
        schema: The columns that files hold.
    """
    counted = with_record_counts(files.slice(0, _FILES), ["size", NUM_RECORDS.name])
    counted = counted.filter(counted[NUM_RECORDS.name].is_valid())
    rows, size = (pc.sum(counted[name]).as_py() or 0 for name in (NUM_RECORDS.name, "size"))
    return max(1.0, size / rows) if rows else float(row_width(schema))


def is_of_fixed_width(schema: StructType) -> bool:
    """Whether ``row_width`` is certain for its columns: none holds texts or other values of any length."""
    return all(field.type in _FIXED or isinstance(field.type, DecimalType) for field in schema.fields)


def row_width(data_type: DataType) -> int:
    """Bytes of a value in memory; of a row for a schema."""
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
