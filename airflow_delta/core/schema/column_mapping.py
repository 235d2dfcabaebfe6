"""Column mapping: the names and ids under which data files and the log know a table's columns.

With it a column has a *logical* name, which users see and may change, and a *physical* name and an id, which never change.
Data files, partition values and statistics are about physical names; predicates and ``partitionColumns`` about logical ones.

Protocol: PROTOCOL.md, "Column Mapping".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from airflow_delta.core.errors import InvalidSchemaError
from airflow_delta.core.schema.data_types import ArrayType, DataType, MapType, StructField, StructType

MODE_PROPERTY: Final = "delta.columnMapping.mode"
MAX_ID_PROPERTY: Final = "delta.columnMapping.maxColumnId"
ID_KEY: Final = "delta.columnMapping.id"
PHYSICAL_NAME_KEY: Final = "delta.columnMapping.physicalName"

_KEYS = frozenset({ID_KEY, PHYSICAL_NAME_KEY, "delta.columnMapping.nested.ids"})
_MAX_ID = (1 << 31) - 1


class MappingMode(StrEnum):
    """How columns are found in data files: by their logical name, by their physical name, or by their field id."""

    NONE = "none"
    NAME = "name"
    ID = "id"


def mapping_mode(configuration: Mapping[str, str]) -> MappingMode:
    """The mode that a table's properties say.

    Raises:
        InvalidSchemaError: No mode of this name is known, so the columns cannot be identified.
    """
    text = configuration.get(MODE_PROPERTY, MappingMode.NONE)
    try:
        return MappingMode(text.lower())
    except ValueError as error:
        raise InvalidSchemaError(detail=f"unknown column mapping mode {text!r}") from error


def physical_name(field: StructField) -> str:
    """The name of a column in data files, partition values and statistics: its own where it has no other.

    Raises:
        InvalidSchemaError: The physical name is not a text.
    """
    name = field.metadata.get(PHYSICAL_NAME_KEY, field.name)
    if not isinstance(name, str):
        raise InvalidSchemaError(detail=f"the physical name of the column {field.name!r} is {name!r}")
    return name


def field_id(field: StructField) -> int | None:
    """The id of a column, which Parquet files carry as its ``field_id``; None where it has none.

    Raises:
        InvalidSchemaError: The id is not a 32-bit number.
    """
    number = field.metadata.get(ID_KEY)
    if number is None:
        return None
    if not isinstance(number, int) or not 0 <= number <= _MAX_ID:
        raise InvalidSchemaError(detail=f"the id of the column {field.name!r} is {number!r}")
    return number


def physical_schema(schema: StructType) -> StructType:
    """The schema with physical names at every level, metadata kept.

    Raises:
        InvalidSchemaError: Two columns of one struct have one physical name.
    """
    return _each_struct(schema, lambda fields: _unique(replace(field, name=physical_name(field)) for field in fields))


def without_column_mapping(schema: StructType) -> StructType:
    """The schema whose columns are what they are called: ids and physical names are ignored by a table in mode ``none``."""
    if not any(_KEYS & field.metadata.keys() for field in all_fields(schema)):
        return schema
    return _each_struct(
        schema,
        lambda fields: (
            replace(field, metadata={key: value for key, value in field.metadata.items() if key not in _KEYS})
            if _KEYS & field.metadata.keys()
            else field
            for field in fields
        ),
    )


def with_column_mapping(schema: StructType, *, max_id: int, keep_names: bool = False) -> tuple[StructType, int]:
    """The schema with an id and a physical name for every column, and the greatest id, which the table must remember.

    Args:
        schema: The columns; those that have an id or a physical name keep it.
        max_id: The table's ``delta.columnMapping.maxColumnId``; 0 for a new one.
        keep_names: Whether the physical name of a column is its name, so that existing data files stay readable (the mapping
            is enabled on a table with data); otherwise it is ``col-`` and a random UUID.
    """
    ids = [number for field in all_fields(schema) if (number := field_id(field)) is not None]
    last = max([max_id, *ids])

    def mapped(field: StructField) -> StructField:
        nonlocal last
        metadata = dict(field.metadata)
        if ID_KEY not in metadata:
            last += 1
            metadata[ID_KEY] = last
        metadata.setdefault(PHYSICAL_NAME_KEY, field.name if keep_names else f"col-{uuid.uuid4()}")
        return replace(field, metadata=metadata)

    return _each_struct(schema, lambda fields: map(mapped, fields)), last


def all_fields(data_type: DataType) -> Iterator[StructField]:
    """The columns of a schema and all fields inside them, each before what is inside it."""
    match data_type:
        case StructType(fields):
            for field in fields:
                yield field
                yield from all_fields(field.type)
        case ArrayType(element_type=element):
            yield from all_fields(element)
        case MapType(key_type=key, value_type=value):
            yield from all_fields(key)
            yield from all_fields(value)


def _each_struct(schema: StructType, change: Callable[[tuple[StructField, ...]], Iterator[StructField]]) -> StructType:
    """The schema with the fields of every struct changed, the outer ones first."""

    def changed(data_type: DataType) -> DataType:
        match data_type:
            case StructType():
                return _each_struct(data_type, change)
            case ArrayType(element):
                return replace(data_type, element_type=changed(element))
            case MapType(key, value):
                return replace(data_type, key_type=changed(key), value_type=changed(value))
            case _:
                return data_type

    return StructType(tuple(replace(field, type=changed(field.type)) for field in change(schema.fields)))


def _unique(fields: Iterator[StructField]) -> Iterator[StructField]:
    seen = set()
    for field in fields:
        if field.name in seen:
            raise InvalidSchemaError(detail=f"two columns have the physical name {field.name!r}")
        seen.add(field.name)
        yield field
