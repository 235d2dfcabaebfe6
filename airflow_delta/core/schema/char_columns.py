"""CHAR(n): texts that every reader shows padded with spaces to ``n`` characters.

A ``char`` or ``varchar`` is a string in the log; the type as it was declared stands in the metadata of the column, of a nested
one in that of the column around it. What lies in files and partition values may be padded or not: Delta's writers differ, so
readers pad. Spark: ``CharVarcharUtils``, ``ApplyCharTypePadding``, ``CharVarcharCodegenUtils.readSidePadding``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.schema.data_types import STRING, ArrayType, DataType, MapType, StructField, StructType

CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps the declared type of a column that is, or holds, a ``char(n)`` or ``varchar(n)``."""

_CHAR = re.compile(r"char\s*\(\s*0*(\d+)\s*\)", re.IGNORECASE)
_HAS_CHAR = re.compile(r"(?<!\w)char\s*\(", re.IGNORECASE)
_MAX_LENGTH = 8192  # a table may say any number, and each value is padded to it


@dataclass(frozen=True, slots=True)
class Padding:
    """Where in the values of a column texts are padded.

    Attributes:
        length: To how many characters, where the values are texts.
        inside: Of what lies inside of the values, by position: members of a struct, the element of a list, key and value of a
            map.
    """

    length: int = 0
    inside: Mapping[int, Padding] | None = None

    def pad(self, values: pa.Array) -> pa.Array:
        """The values, padded; longer texts stay as they are."""
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
    """Whether the column is, or holds, a ``char(n)``."""
    return _HAS_CHAR.search(str(field.metadata.get(CHAR_VARCHAR, ""))) is not None


def without_char(schema: StructType) -> StructType:
    """The columns as those read them who do not pad."""
    fields = (
        replace(field, metadata={key: value for key, value in field.metadata.items() if key != CHAR_VARCHAR})
        if has_char(field)
        else field
        for field in schema.fields
    )
    return StructType(tuple(fields))


def paddings(schema: StructType) -> dict[str, Padding]:
    """How the columns are padded, by name; columns without ``char(n)`` are not among them.

    Raises:
        UnsupportedTypeError: A length is too great.
    """
    found = (
        (field.name, _padding(str(field.metadata[CHAR_VARCHAR]).strip(), field.type))
        for field in schema.fields
        if has_char(field)
    )
    return {name: padding for name, padding in found if padding is not None}


def _padding(declared: str, kind: DataType) -> Padding | None:
    """How values of this type are padded, where this is the declared one; None where nowhere, or where the two do not fit."""
    if kind == STRING:
        match = _CHAR.fullmatch(declared)
        if match is not None and (len(match[1]) > len(str(_MAX_LENGTH)) or int(match[1]) > _MAX_LENGTH):
            raise UnsupportedTypeError(type=declared)
        return Padding(length=int(match[1])) if match else None
    parts = list(_parts(declared[declared.find("<") + 1 : -1]))
    match kind:
        case StructType(fields):
            names = [name.strip("`").replace("``", "`") for name, _ in parts]
            if len(names) == len(fields):  # by position, as Spark does it: members may have been renamed
                names = [field.name for field in fields]
            inside = {
                position: _padding(parts[names.index(field.name)][1], field.type)
                for position, field in enumerate(fields)
                if field.name in names
            }
        case ArrayType(element):
            inside = {0: _padding(declared[declared.find("<") + 1 : -1].strip(), element)}
        case MapType(key, value) if len(parts) == 2:  # noqa: PLR2004 - a key and a value
            inside = {position: _padding(parts[position][1], child) for position, child in enumerate((key, value))}
        case _:
            return None
    known = {position: padding for position, padding in inside.items() if padding is not None}
    return Padding(inside=known) if known else None


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Name (empty where there is none) and type of each part between the outermost commas."""
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
