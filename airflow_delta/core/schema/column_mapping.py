"""Column mapping: the names and ids by which data files and the log identify a table's columns.

With column mapping, a column has a *logical* name, which users see and may change, and a *physical* name and an id, which never
change. Data files, partition values and statistics use physical names; predicates and ``partitionColumns`` use logical ones.

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
_MAX_DIGITS = 19  # digits of a 64-bit integer


class MappingMode(StrEnum):
    """How columns are matched in data files: by logical name, by physical name, or by field id."""

    NONE = "none"
    NAME = "name"
    ID = "id"


def mapping_mode(configuration: Mapping[str, str]) -> MappingMode:
    """The mode in a table's properties.

    Raises:
        InvalidSchemaError: The mode is unknown, so columns cannot be identified.
    """
    text = configuration.get(MODE_PROPERTY, MappingMode.NONE)
    try:
        return MappingMode(text.lower())
    except ValueError as error:
        raise InvalidSchemaError(detail=f"unknown column mapping mode {text!r}") from error


def greatest_id(configuration: Mapping[str, str]) -> int:
    """The greatest column id assigned so far (``maxColumnId``); 0 if invalid, as the ids in the schema are considered, too."""
    text = configuration.get(MAX_ID_PROPERTY, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS else 0


def physical_name(field: StructField) -> str:
    """The name of a column in data files, partition values and statistics; its logical name if it has no physical one.

    Raises:
        InvalidSchemaError: The physical name is not text.
    """
    name = field.metadata.get(PHYSICAL_NAME_KEY, field.name)
    if not isinstance(name, str):
        raise InvalidSchemaError(detail=f"the physical name of the column {field.name!r} is {name!r}")
    return name


def field_id(field: StructField) -> int | None:
    """The id of a column, stored in Parquet files as ``field_id``; None if it has none.

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
    """The ids of elements, keys and values inside of a column, by their ``nested_paths``; most tables have none.

    Protocol: PROTOCOL.md, "Writer Requirements for IcebergCompatV2".

    Raises:
        InvalidSchemaError: The metadata is not a map of names to 32-bit numbers.
    """
    ids = field.metadata.get(NESTED_IDS_KEY, {})
    if not isinstance(ids, dict) or not all(isinstance(number, int) and 0 <= number <= _MAX_ID for number in ids.values()):
        raise InvalidSchemaError(detail=f"the nested ids of the column {field.name!r} are {ids!r:.200}")
    return ids


def nested_paths(field: StructField) -> Iterator[str]:
    """Paths of what needs a nested id: elements, keys and values of a column, except those inside of a nested struct.

    They are spelled as in the protocol: ``<physical name>.element``, ``<physical name>.value.element``, and so on.
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
        InvalidSchemaError: Two fields of one struct have the same physical name.
    """
    return _each_struct(schema, lambda fields: _unique(replace(field, name=physical_name(field)) for field in fields))


def without_column_mapping(schema: StructType) -> StructType:
    """The schema without ids and physical names, which a table in mode ``none`` ignores."""
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
    """The schema with an id and a physical name for every column, and the greatest id, which the table must record.

    Args:
        schema: The columns; existing ids and physical names are kept.
        max_id: The table's ``delta.columnMapping.maxColumnId``; 0 for a new table.
        keep_names: Whether physical names equal the current names, so that existing data files stay readable (when mapping is
            enabled on a table with data); otherwise they are ``col-`` and a random UUID.
        number_names: Whether physical names are ``col-`` and the id instead.
        nested: Whether elements of lists, and keys and values of maps, get ids, too.
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
    """All ids in a schema, including nested ones; unique in a valid table."""
    return [
        number
        for field in all_fields(schema)
        for number in (field_id(field), *nested_ids(field).values())
        if number is not None
    ]


def all_fields(data_type: DataType) -> Iterator[StructField]:
    """All fields of a schema at every depth, outer ones before inner ones."""
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
    """The schema with ``change`` applied to the fields of every struct, outer ones first."""

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
