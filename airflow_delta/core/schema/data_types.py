"""The types of a table's columns, named as in PROTOCOL.md, "Schema Serialization Format".

All are values: equal when they mean the same, metadata included. ``str(type)`` is the type's SQL name, as a cast spells it.
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
    """A type that its name says all about.

    A name that is not known here (an interval) is kept, so that a schema with it opens and is written
    back as it was; it has no Arrow type and no values.
    """

    name: str

    def __str__(self) -> str:
        return _SQL_NAMES.get(self.name, self.name)


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal number of ``precision`` digits, ``scale`` of them behind the point."""

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
    """A named column or a named member of a struct.

    Attributes:
        metadata: What the log keeps about the column (column mapping, generation, comments, ...), untouched.
    """

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.name}:{self.type}"


@dataclass(frozen=True)  # without slots, in which nothing could be cached: a table may have thousands of columns
class StructType:
    """Named members in order; a table's schema is one."""

    fields: tuple[StructField, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def _by_key(self) -> Mapping[str, list[StructField]]:
        """The fields by what their names are compared by."""
        found: dict[str, list[StructField]] = {}
        for member in self.fields:
            found.setdefault(name_key(member.name), []).append(member)
        return found

    def find(self, name: str) -> StructField | None:
        """The field of this name, in any case as ``find_name`` resolves names; None when there is none. Raises likewise."""
        alike = self._by_key.get(name_key(name), [])
        position = find_name(name, [member.name for member in alike])
        return None if position is None else alike[position]

    def __reduce__(self) -> tuple[type[StructType], tuple[tuple[StructField, ...]]]:
        return StructType, (self.fields,)

    def without(self, names: tuple[str, ...]) -> StructType:
        """This struct less the fields of these names (in any case)."""
        dropped = set(names)
        others = {name_key(name) for name in dropped.difference(self.names)}
        return StructType(
            tuple(field for field in self.fields if field.name not in dropped and name_key(field.name) not in others)
        )


@dataclass(frozen=True, slots=True)
class UnknownType:
    """A type written as a JSON object of a kind that is not known here (a user-defined type): its text, kept as it was."""

    text: str

    def __str__(self) -> str:
        return self.text


DataType: TypeAlias = PrimitiveType | DecimalType | StructType | ArrayType | MapType | UnknownType


def all_types(data_type: DataType) -> Iterator[DataType]:
    """The type and all types inside of it, each before what is inside of it."""
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
"""The type of a bare NULL; a table holds no values of it."""
