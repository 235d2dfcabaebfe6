"""Columns of unsupported types: a table whose features add such types is opened without these columns."""

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
    DataType,
    PrimitiveType,
    StructType,
    all_types,
)

_KNOWN = frozenset({*INTEGERS, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, VARIANT, VOID})


def columns_of_unknown_types(schema: StructType) -> tuple[str, ...]:
    """Names of the columns that are or contain such a type (such as geometry), in the table's order."""
    return tuple(field.name for field in schema.fields if any(map(is_unknown, all_types(field.type))))


def is_unknown(data_type: DataType) -> bool:
    """Whether the type is unknown, so that its values cannot be read here."""
    return isinstance(data_type, PrimitiveType) and data_type not in _KNOWN
