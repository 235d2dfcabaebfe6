"""CHAR(n): strings that every reader shows padded with spaces to ``n`` characters.

In the log, ``char`` and ``varchar`` are strings; the declared type is in the metadata of the column, for nested fields in that
of the top-level column. Values in files and partition values may be padded or not, as Delta writers differ, so readers pad.
Spark: ``CharVarcharUtils``, ``ApplyCharTypePadding``, ``CharVarcharCodegenUtils.readSidePadding``.

Spark uses the declared type as the column's own, so it must have the same fields in the same order (``in_step``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.schema.column_mapping import all_fields
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.data_types import (
    STRING,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)

CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata key under which Spark stores the declared type of a column that is or contains ``char(n)`` or ``varchar(n)``."""

_CHAR = re.compile(r"char\s*\(\s*0*(\d+)\s*\)", re.IGNORECASE)
_HAS_CHAR = re.compile(r"(?<!\w)char\s*\(", re.IGNORECASE)
_SIZED = re.compile(r"(var)?char\s*\(\s*\d+\s*\)", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"\w+")
_OF_STRUCT, _OF_ARRAY, _OF_MAP = "struct<", "array<", "map<"
_MAX_LENGTH = 8192  # limits the padding, as a table may declare any number


@dataclass(frozen=True, slots=True)
class Padding:
    """Which strings in the values of a column are padded.

    Attributes:
        length: Number of characters to pad to, if the values are strings.
        inside: Paddings of nested values, by position: fields of a struct, the element of a list, key and value of a map.
    """

    length: int = 0
    inside: Mapping[int, Padding] | None = None

    def pad(self, values: pa.Array) -> pa.Array:
        """The values, padded; longer strings stay unchanged."""
        if self.inside is None:
            return pc.utf8_rpad(values, width=self.length, padding=" ")
        kind = values.type
        if pa.types.is_struct(kind):
            members = [self._member(position, values.field(position)) for position in range(kind.num_fields)]
            return pa.StructArray.from_arrays(members, fields=list(kind), mask=values.is_null() if values.null_count else None)
        if pa.types.is_map(kind):
            parts = [self._member(position, child) for position, child in enumerate((values.keys, values.items))]
            inner = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
        else:
            inner = self._member(0, values.values)
        return pa.Array.from_buffers(kind, len(values), values.buffers()[:2], values.null_count, values.offset, [inner])

    def _member(self, position: int, values: pa.Array) -> pa.Array:
        found = (self.inside or {}).get(position)
        return values if found is None else found.pad(values)


def has_char(field: StructField) -> bool:
    """Whether the column is or contains a ``char(n)``."""
    return _HAS_CHAR.search(str(field.metadata.get(CHAR_VARCHAR, ""))) is not None


def without_char(schema: StructType) -> StructType:
    """The columns as plain strings, for readers that do not pad."""
    fields = (
        replace(field, metadata={key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR})
        if has_char(field)
        else field
        for field in schema.fields
    )
    return StructType(tuple(fields))


def paddings(schema: StructType) -> dict[str, Padding]:
    """The paddings of the columns, by name; columns without ``char(n)`` are left out.

    Raises:
        UnsupportedTypeError: A length is too large.
    """
    found = (
        (field.name, _padding(_sized(field.metadata[CHAR_VARCHAR], field.type))) for field in schema.fields if has_char(field)
    )
    return {name: padding for name, padding in found if padding is not None}


def _padding(declared: DataType) -> Padding | None:
    """The padding for values of a declared type; None if nothing is padded."""
    match declared:
        case PrimitiveType(name) if match := _CHAR.fullmatch(name):
            if len(match[1]) > len(str(_MAX_LENGTH)) or int(match[1]) > _MAX_LENGTH:
                raise UnsupportedTypeError(type=name)
            return Padding(length=int(match[1]))
        case StructType(fields):
            inside = [_padding(field.type) for field in fields]
        case ArrayType(element):
            inside = [_padding(element)]
        case MapType(key, value):
            inside = [_padding(key), _padding(value)]
        case _:
            return None
    known = {position: padding for position, padding in enumerate(inside) if padding is not None}
    return Padding(inside=known) if known else None


def in_step(field: StructField) -> StructField:
    """The column, with the fields of its declared type matched to those of its actual type, if these have changed since.

    Fields are matched by name; if names differ but their number is the same, a field was renamed, and positions count. A type
    declared in a nested field's own metadata, as when the field was added, moves to the column.
    """
    is_nested = isinstance(field.type, StructType | ArrayType | MapType)
    if not is_nested or not any(CHAR_VARCHAR in inner.metadata for inner in all_fields(StructType((field,)))):
        return field
    declared = _sized(field.metadata.get(CHAR_VARCHAR), field.type)
    metadata = {key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR}
    return as_logged(replace(field, type=declared, metadata=metadata))


def as_logged(field: StructField) -> StructField:
    """The form in the log of a column with a declared type, such as ``struct<a:char(5)>``."""
    kind = without_lengths(field.type)
    if kind == field.type:
        return field
    return replace(field, type=kind, metadata={CHAR_VARCHAR: _declared(field.type), **field.metadata})


def without_lengths(declared: DataType) -> DataType:
    """The form in the log of a declared type: strings of limited length become strings."""
    match declared:
        case PrimitiveType(name) if _SIZED.fullmatch(name):
            return STRING
        case StructType(fields):
            return StructType(tuple(replace(field, type=without_lengths(field.type)) for field in fields))
        case ArrayType(element):
            return replace(declared, element_type=without_lengths(element))
        case MapType(key, value):
            return replace(declared, key_type=without_lengths(key), value_type=without_lengths(value))
        case _:
            return declared


def _declared(data_type: DataType) -> str:
    """The type as Spark stores it in a column's metadata, and parses it. Spark: ``DataType.catalogString``."""
    match data_type:
        case StructType(fields):
            return f"struct<{','.join(f'{_quoted(field.name)}:{_declared(field.type)}' for field in fields)}>"
        case ArrayType(element):
            return f"array<{_declared(element)}>"
        case MapType(key, value):
            return f"map<{_declared(key)},{_declared(value)}>"
        case _:
            return str(data_type)


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _sized(declared: object, kind: DataType) -> DataType:
    """The type with the string lengths that this text declares."""
    text = declared.strip() if isinstance(declared, str) else ""
    beginning = text[: text.find("<") + 1].lower()
    parts = list(_parts(text[len(beginning) : -1])) if beginning else []
    match kind:
        case _ if kind == STRING:
            return PrimitiveType(text.lower()) if _SIZED.fullmatch(text) else kind
        case StructType(fields):
            texts = _of_members(parts if beginning == _OF_STRUCT else [], fields)
            return StructType(tuple(_sized_member(field, text) for field, text in zip(fields, texts, strict=True)))
        case ArrayType(element):
            return replace(kind, element_type=_sized(text[len(beginning) : -1] if beginning == _OF_ARRAY else None, element))
        case MapType(key, value):
            of_key, of_value = [part for _, part in parts] if beginning == _OF_MAP and len(parts) == 2 else (None, None)  # noqa: PLR2004
            return replace(kind, key_type=_sized(of_key, key), value_type=_sized(of_value, value))
        case _:
            return kind


def _sized_member(field: StructField, declared: str | None) -> StructField:
    own = field.metadata.get(CHAR_VARCHAR, declared)
    metadata = {key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR}
    return replace(field, type=_sized(own, field.type), metadata=metadata)


def _of_members(parts: list[tuple[str, str]], fields: tuple[StructField, ...]) -> list[str | None]:
    """The declared type of each of these fields, if any."""
    by_name = {name_key(name[1:-1].replace("``", "`") if name[:1] == "`" else name): text for name, text in parts}
    names = [name_key(field.name) for field in fields]
    if len(parts) == len(fields) and by_name.keys() != set(names):
        return [text for _, text in parts]
    return [by_name.get(name) for name in names]


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Name (empty if it has none) and type of each part between top-level commas."""
    depth, start, colon, quoted = 0, 0, -1, False
    for position, sign in enumerate(f"{text},"):
        quoted ^= sign == "`"
        if quoted:
            continue
        depth += (sign in "<(") - (sign in ">)")
        if sign == ":" and depth == 0 and colon < start:
            colon = position
        elif sign == "," and depth == 0:
            yield text[start:colon].strip() if colon >= start else "", text[max(start, colon + 1) : position].strip()
            start = position + 1
