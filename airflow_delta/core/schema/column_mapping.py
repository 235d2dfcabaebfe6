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
NESTED_IDS_KEY: Final = "delta.columnMapping.nested.ids"

_KEYS = frozenset({ID_KEY, PHYSICAL_NAME_KEY, NESTED_IDS_KEY})
_MAX_ID = (1 << 31) - 1
_MAX_DIGITS = 19  # as many as 64 bits hold


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


def greatest_id(configuration: Mapping[str, str]) -> int:
    """The greatest id that the table has given so far; what is not a number counts as 0, as the ids in the schema count too."""
    text = configuration.get(MAX_ID_PROPERTY, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS else 0


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


def nested_ids(field: StructField) -> Mapping[str, int]:
    """The ids of the elements, keys and values inside of a column, by their ``nested_paths``; none in most tables.

    Protocol: PROTOCOL.md, "Writer Requirements for IcebergCompatV2".

    Raises:
        InvalidSchemaError: They are not 32-bit numbers by name.
    """
    ids = field.metadata.get(NESTED_IDS_KEY, {})
    if not isinstance(ids, dict) or not all(isinstance(number, int) and 0 <= number <= _MAX_ID for number in ids.values()):
        raise InvalidSchemaError(detail=f"the nested ids of the column {field.name!r} are {ids!r:.200}")
    return ids


def nested_paths(field: StructField) -> Iterator[str]:
    """What needs a nested id: each element, key and value of a column that no struct inside of it holds.

    They are spelled as the protocol does: ``<physical name>.element``, ``<physical name>.value.element``, ....
    """
    return _paths_inside(field.type, physical_name(field))


def _paths_inside(data_type: DataType, path: str) -> Iterator[str]:
    match data_type:
        case ArrayType(element):
            inside = {"element": element}
        case MapType(key, value):
            inside = {"key": key, "value": value}
        case _:
            inside = {}
    for name, kind in inside.items():
        yield f"{path}.{name}"
        yield from _paths_inside(kind, f"{path}.{name}")


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


def with_column_mapping(
    schema: StructType, *, max_id: int, keep_names: bool = False, number_names: bool = False, nested: bool = False
) -> tuple[StructType, int]:
    """The schema with an id and a physical name for every column, and the greatest id, which the table must remember.

    Args:
        schema: The columns; those that have an id or a physical name keep it.
        max_id: The table's ``delta.columnMapping.maxColumnId``; 0 for a new one.
        keep_names: Whether the physical name of a column is its name, so that existing data files stay readable (the mapping
            is enabled on a table with data); otherwise it is ``col-`` and a random UUID.
        number_names: Whether it is ``col-`` and the id instead.
        nested: Whether elements of lists, and keys and values of maps, get ids too.
    """
    last = max([max_id, *assigned_ids(schema)])

    def mapped(field: StructField) -> StructField:
        nonlocal last
        metadata = dict(field.metadata)
        if ID_KEY not in metadata:
            last += 1
            metadata[ID_KEY] = last
        new_name = f"col-{metadata[ID_KEY] if number_names else uuid.uuid4()}"
        metadata.setdefault(PHYSICAL_NAME_KEY, field.name if keep_names else new_name)
        field = replace(field, metadata=metadata)
        if nested and (paths := list(nested_paths(field))):
            known = nested_ids(field)
            missing = [path for path in paths if path not in known]
            metadata[NESTED_IDS_KEY] = {
                **{path: known[path] for path in paths if path in known},
                **dict(zip(missing, range(last + 1, last + 1 + len(missing)), strict=True)),
            }
            last += len(missing)
        return field

    return _each_struct(schema, lambda fields: map(mapped, fields)), last


def assigned_ids(schema: StructType) -> list[int]:
    """All ids in a schema, of columns and inside of them; each of them once, in a table that is as it should be."""
    return [
        number
        for field in all_fields(schema)
        for number in (field_id(field), *nested_ids(field).values())
        if number is not None
    ]


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
