"""Collations, the rules by which strings compare. They are preserved in the schema; here strings compare as bytes.

The metadata of a column names the collation of its strings, and of those in its arrays and maps, by paths that begin with the
column's own name.

Protocol: PROTOCOL.md, "Collations".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from airflow_delta.core.schema.data_types import STRING, ArrayType, DataType, MapType, PrimitiveType, StructField

COLLATIONS: Final = "__COLLATIONS"

_BINARY = "UTF8_BINARY"
_DECLARED = "string collate "


def has_collation(field: StructField) -> bool:
    """Whether equal strings of the column may have different bytes."""
    return COLLATIONS in field.metadata


def renamed(field: StructField, name: str) -> StructField:
    """The column with another name, also in the paths of its collations."""
    known = field.metadata.get(COLLATIONS)
    if not isinstance(known, dict):
        return replace(field, name=name)
    paths = {
        name + path.removeprefix(field.name) if path == field.name or path.startswith(f"{field.name}.") else path: collation
        for path, collation in known.items()
    }
    return replace(field, name=name, metadata={**field.metadata, COLLATIONS: paths})


def declared_string(collation: str) -> PrimitiveType:
    """``STRING COLLATE name``, the form in a declaration, before ``with_collations`` moves the collation to the column."""
    name = collation.upper() if collation.upper().startswith(("UTF8_", "UNICODE")) else collation
    provider = "spark" if name.startswith("UTF8_") else "icu"
    return STRING if name == _BINARY else PrimitiveType(f"{_DECLARED}{provider}.{name}")


def with_collations(field: StructField) -> StructField:
    """The column as declared, with the collations of its type moved to its metadata; fields of structs already have theirs."""
    found = dict(_declared(field.type, field.name))
    if not found:
        return field
    return replace(field, type=without_collations(field.type), metadata={**field.metadata, COLLATIONS: found})


def without_collations(data_type: DataType) -> DataType:
    """The declared type, with collated strings as plain strings."""
    match data_type:
        case ArrayType(element):
            return replace(data_type, element_type=without_collations(element))
        case MapType(key, value):
            return replace(data_type, key_type=without_collations(key), value_type=without_collations(value))
        case PrimitiveType(name) if name.startswith(_DECLARED):
            return STRING
        case _:
            return data_type


def _declared(data_type: DataType, path: str) -> Iterator[tuple[str, str]]:
    match data_type:
        case ArrayType(element):
            yield from _declared(element, f"{path}.element")
        case MapType(key, value):
            yield from _declared(key, f"{path}.key")
            yield from _declared(value, f"{path}.value")
        case PrimitiveType(name) if name.startswith(_DECLARED):
            yield path, name.removeprefix(_DECLARED)
