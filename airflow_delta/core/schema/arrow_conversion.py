"""A table's types as Arrow's, both ways.

Timestamps are microseconds: ``timestamp('us', 'UTC')`` for instants, ``timestamp('us')`` for ``timestamp_ntz``.
"""

from __future__ import annotations

import pyarrow as pa

from airflow_delta.core.errors import UnsupportedTypeError
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
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

_TO_ARROW: dict[DataType, pa.DataType] = {
    BYTE: pa.int8(),
    SHORT: pa.int16(),
    INTEGER: pa.int32(),
    LONG: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    STRING: pa.string(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    VOID: pa.null(),
}

# Other widths of Arrow are read as the narrowest type that holds all their values, as Spark reads them from Parquet.
_FROM_ARROW: dict[pa.DataType, DataType] = {
    **{arrow: primitive for primitive, arrow in _TO_ARROW.items()},
    pa.uint8(): SHORT,
    pa.uint16(): INTEGER,
    pa.uint32(): LONG,
    pa.uint64(): DecimalType(20, 0),
    pa.float16(): FLOAT,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.date64(): DATE,
}

_MAX_PRECISION = 38


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema as Arrow's, nullability included.

    Raises:
        UnsupportedTypeError: A type has no Arrow counterpart (``variant``, intervals, user-defined types).
    """
    return pa.schema(map(_arrow_field, schema.fields))


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that holds values of this type. Raises as ``arrow_schema``."""
    match data_type:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case StructType(fields):
            return pa.struct(map(_arrow_field, fields))
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element), contains_null))
        case MapType(key, value, contains_null):
            item = pa.field("value", arrow_type(value), contains_null)
            return pa.map_(pa.field("key", arrow_type(key), nullable=False), item)
        case PrimitiveType() if data_type in _TO_ARROW:
            return _TO_ARROW[data_type]
        case _:
            raise UnsupportedTypeError(type=str(data_type))


def struct_from_arrow(schema: pa.Schema) -> StructType:
    """The schema of a table that holds such rows.

    Raises:
        UnsupportedTypeError: A type that no Delta table holds (times of day, durations, unions, ...).
    """
    return StructType(tuple(map(_struct_field, schema)))


def type_from_arrow(arrow: pa.DataType) -> DataType:
    """The type of a column that holds such values. Raises as ``struct_from_arrow``."""
    kinds = pa.types
    if arrow in _FROM_ARROW:
        return _FROM_ARROW[arrow]
    if kinds.is_timestamp(arrow):
        return TIMESTAMP if arrow.tz else TIMESTAMP_NTZ
    if kinds.is_decimal(arrow) and arrow.precision <= _MAX_PRECISION:
        return DecimalType(arrow.precision, arrow.scale)
    if kinds.is_struct(arrow):
        return StructType(tuple(map(_struct_field, arrow)))
    if kinds.is_map(arrow):
        return MapType(type_from_arrow(arrow.key_type), type_from_arrow(arrow.item_type), arrow.item_field.nullable)
    if any(is_kind(arrow) for is_kind in (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list, kinds.is_list_view)):
        return ArrayType(type_from_arrow(arrow.value_type), arrow.value_field.nullable)
    if kinds.is_dictionary(arrow):
        return type_from_arrow(arrow.value_type)
    if kinds.is_fixed_size_binary(arrow):
        return BINARY
    if isinstance(arrow, pa.BaseExtensionType):
        return type_from_arrow(arrow.storage_type)
    raise UnsupportedTypeError(type=str(arrow))


def _arrow_field(field: StructField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.type), field.nullable)


def _struct_field(field: pa.Field) -> StructField:
    return StructField(field.name, type_from_arrow(field.type), field.nullable)
