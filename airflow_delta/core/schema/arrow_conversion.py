"""Converts a table's types to Arrow's and back.

Timestamps have microseconds: ``timestamp('us', 'UTC')`` for instants, ``timestamp('us')`` for ``timestamp_ntz``. A variant is
``struct<value: binary, metadata: binary>``, both in Parquet's binary variant encoding; shredded parts are merged back into the
value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import pyarrow as pa

from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.schema.column_mapping import PHYSICAL_NAME_KEY, field_id, nested_ids, physical_name
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
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

FIELD_ID: Final = b"PARQUET:field_id"
"""Key, in an Arrow field's metadata, of the field id of a Parquet column, as text."""

FOUND_BY: Final = b"airflow_delta.found_by"
"""Key, in an Arrow field's metadata, of the name that a mapped column has on the other side."""

VARIANT_TYPE: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),  # marks a variant for Spark
    ]
)

_MakeField: TypeAlias = Callable[[StructField], pa.Field]
_NO_IDS: Mapping[str, int] = {}

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
    VARIANT: VARIANT_TYPE,
}

# Arrow types of other widths become the narrowest type that holds all their values, as when Spark reads Parquet.
_FROM_ARROW: dict[pa.DataType, DataType] = {
    **{arrow: primitive for primitive, arrow in _TO_ARROW.items() if primitive != VARIANT},
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
        UnsupportedTypeError: A type has no Arrow counterpart (intervals, user-defined types).
    """
    return pa.schema(map(_arrow_field, schema.fields))


def reading_schema(schema: StructType) -> pa.Schema:
    """``arrow_schema``, with the ids and physical names by which to find the fields in data files, at every level.

    Fields of mapped columns have them in their metadata, under ``FIELD_ID`` and ``FOUND_BY``; other fields have none.
    """
    return pa.schema(map(_reading_field, schema.fields))


def writing_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of data files: physical names and Parquet field ids at every level. ``FOUND_BY`` is the logical name."""
    return pa.schema(map(_writing_field, schema.fields))


def arrow_type(
    data_type: DataType, make_field: _MakeField | None = None, *, path: str = "", ids: Mapping[str, int] = _NO_IDS
) -> pa.DataType:
    """The Arrow type that holds values of this type. Raises as ``arrow_schema``.

    Args:
        data_type: The type.
        make_field: Converts fields of structs; by default to Arrow fields of the same names.
        path: Path of the values, as in ``nested_paths``.
        ids: Ids of elements, keys and values that have one, by path.
    """
    make_field = make_field or _arrow_field
    match data_type:
        case DecimalType(precision, scale):
            return _decimal(precision, scale)
        case StructType(fields):
            return pa.struct(map(make_field, fields))
        case ArrayType(element, contains_null):
            return pa.list_(_inner_field("element", element, make_field, path, ids, nullable=contains_null))
        case MapType(key, value, contains_null):
            item = _inner_field("value", value, make_field, path, ids, nullable=contains_null)
            return pa.map_(_inner_field("key", key, make_field, path, ids, nullable=False), item)
        case PrimitiveType() if data_type in _TO_ARROW:
            return _TO_ARROW[data_type]
        case _:
            raise UnsupportedTypeError(type=str(data_type))


def _inner_field(
    name: str, data_type: DataType, make_field: _MakeField, path: str, ids: Mapping[str, int], *, nullable: bool
) -> pa.Field:
    path = f"{path}.{name}"
    metadata = {FIELD_ID: str(ids[path]).encode()} if path in ids else None
    return pa.field(name, arrow_type(data_type, make_field, path=path, ids=ids), nullable, metadata)


def struct_from_arrow(schema: pa.Schema) -> StructType:
    """The schema of a table for such rows.

    Raises:
        UnsupportedTypeError: A type that Delta does not have (times of day, durations, unions, ...).
    """
    return StructType(tuple(map(_struct_field, schema)))


def type_from_arrow(arrow: pa.DataType) -> DataType:
    """The type of a column for such values. Raises as ``struct_from_arrow``."""
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


def _decimal(precision: int, scale: int) -> pa.DataType:
    if not 0 < precision <= _MAX_PRECISION or not 0 <= scale <= precision:
        raise UnsupportedTypeError(type=str(DecimalType(precision, scale)))
    return pa.decimal128(precision, scale)


def _arrow_field(field: StructField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.type), field.nullable)


def _reading_field(field: StructField) -> pa.Field:
    found = _found_by(field, physical_name(field))
    return pa.field(field.name, arrow_type(field.type, _reading_field), field.nullable, found)


def _writing_field(field: StructField) -> pa.Field:
    found, name = _found_by(field, field.name), physical_name(field)
    kind = arrow_type(field.type, _writing_field, path=name, ids=nested_ids(field))
    return pa.field(name, kind, field.nullable, found)


def _found_by(field: StructField, name: str) -> dict[bytes, bytes] | None:
    number = field_id(field)
    metadata = {} if number is None else {FIELD_ID: str(number).encode()}
    if PHYSICAL_NAME_KEY in field.metadata:
        metadata[FOUND_BY] = name.encode()
    return metadata or None


def _struct_field(field: pa.Field) -> StructField:
    return StructField(field.name, type_from_arrow(field.type), field.nullable)
