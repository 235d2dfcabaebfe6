"""The types of a table's columns, named as in PROTOCOL.md, "Schema Serialization Format".

All are values: equal if they mean the same, metadata included. ``str(type)`` is the type's SQL name, as in a cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from airflow_delta.core.schema.column_names import find_name, name_key

_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parameters.

    An unknown name (such as an interval) is preserved, so that such a schema can be opened and written back unchanged; it has
    no Arrow type and no values.
    """

    name: str

    def __str__(self) -> str:
        return _SQL_NAMES.get(self.name, self.name)


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal number of ``precision`` digits, ``scale`` of them after the decimal point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of elements of one type."""

    element_type: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element_type}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Pairs of a key and a value; keys are never NULL."""

    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key_type},{self.value_type}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A column, or a field of a struct.

    Attributes:
        metadata: The field's metadata in the log (column mapping, generation, comments, ...), unchanged.
    """

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.name}:{self.type}"


@dataclass(frozen=True)  # no slots, as cached properties need a __dict__: a table may have thousands of columns
class StructType:
    """Named fields in order; a table's schema is one."""

    fields: tuple[StructField, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def _by_key(self) -> Mapping[str, list[StructField]]:
        """The fields by ``name_key``."""
        found: dict[str, list[StructField]] = {}
        for member in self.fields:
            found.setdefault(name_key(member.name), []).append(member)
        return found

    def find(self, name: str) -> StructField | None:
        """The field with this name, ignoring case as ``find_name`` does, and raising as it does; None without a match."""
        alike = self._by_key.get(name_key(name), [])
        position = find_name(name, [member.name for member in alike])
        return None if position is None else alike[position]

    def __reduce__(self) -> tuple[type[StructType], tuple[tuple[StructField, ...]]]:
        return StructType, (self.fields,)

    def without(self, names: tuple[str, ...]) -> StructType:
        """This struct without the fields of these names (ignoring case)."""
        dropped = set(names)
        others = {name_key(name) for name in dropped.difference(self.names)}
        return StructType(
            tuple(field for field in self.fields if field.name not in dropped and name_key(field.name) not in others)
        )


@dataclass(frozen=True, slots=True)
class UnknownType:
    """A type written as a JSON object of unknown kind (such as a user-defined type), preserved as text."""

    text: str

    def __str__(self) -> str:
        return self.text


DataType: TypeAlias = PrimitiveType | DecimalType | StructType | ArrayType | MapType | UnknownType


def all_types(data_type: DataType) -> Iterator[DataType]:
    """The type and all types inside of it, outer ones before inner ones."""
    yield data_type
    match data_type:
        case StructType(fields):
            for member in fields:
                yield from all_types(member.type)
        case ArrayType(element):
            yield from all_types(element)
        case MapType(key, value):
            yield from all_types(key)
            yield from all_types(value)


BYTE = PrimitiveType("byte")
SHORT = PrimitiveType("short")
INTEGER = PrimitiveType("integer")
LONG = PrimitiveType("long")
INTEGERS = (BYTE, SHORT, INTEGER, LONG)
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
BOOLEAN = PrimitiveType("boolean")
STRING = PrimitiveType("string")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")
VARIANT = PrimitiveType("variant")
VOID = PrimitiveType("void")
"""The type of an untyped NULL; it has no other values."""
