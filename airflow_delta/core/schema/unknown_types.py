"""Columns of types that are not known here: a table of features with such types is opened without them."""

from __future__ import annotations

from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructType,
)

_KNOWN = frozenset({*INTEGERS, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, VARIANT, VOID})


def columns_of_unknown_types(schema: StructType) -> tuple[str, ...]:
    """Names of the columns that are of such a type (a geometry), or hold one, in the table's order."""
    return tuple(field.name for field in schema.fields if _is_unknown(field.type))


def _is_unknown(data_type: DataType) -> bool:
    match data_type:
        case StructType(fields):
            return any(_is_unknown(field.type) for field in fields)
        case ArrayType(element):
            return _is_unknown(element)
        case MapType(key, value):
            return _is_unknown(key) or _is_unknown(value)
        case PrimitiveType():
            return data_type not in _KNOWN
        case _:
            return False
