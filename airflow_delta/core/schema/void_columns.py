"""Columns of type void, which can only be NULL: data files omit them, and readers add them back.

Protocol: PROTOCOL.md, "Primitive Types"; what cannot be omitted: protocol_rfcs/void-type.md.
"""

from __future__ import annotations

from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.schema.data_types import VOID, ArrayType, DataType, MapType, StructType, all_types


def holds_void(data_type: DataType) -> bool:
    """Whether the type is or contains void."""
    return VOID in all_types(data_type)


def check_storable(columns: StructType) -> None:
    """Return if data files can store something of each of these columns (the table's columns without partition columns).

    Raises:
        UnsupportedTypeError: Nothing would remain of a list, a map, a struct or the table.
    """
    if columns.fields and all(field.type == VOID for field in columns.fields):
        raise UnsupportedTypeError(type=str(columns))
    for field in columns.fields:
        if field.type != VOID:
            _check_inside(field.type)


def _check_inside(data_type: DataType) -> None:
    match data_type:
        case StructType():
            check_storable(data_type)
        case ArrayType(element):
            _check_item(element, data_type)
        case MapType(key, value):
            _check_item(key, data_type)
            _check_item(value, data_type)


def _check_item(item: DataType, container: DataType) -> None:
    if item == VOID:
        raise UnsupportedTypeError(type=str(container))
    _check_inside(item)
