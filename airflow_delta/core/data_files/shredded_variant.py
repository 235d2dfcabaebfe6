"""Reassembles shredded variants, parts of which are stored in typed columns, to the binary encoding.

https://github.com/apache/parquet-format/blob/master/VariantShredding.md and VariantEncoding.md beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.schema.arrow_conversion import VARIANT_TYPE

TYPED_VALUE = "typed_value"

_OBJECT, _ARRAY = 2, 3  # basic types; 0 is a primitive, 1 a short string
_STRING, _BINARY, _UUID = 16, 15, 20
_NULL, _TRUE, _FALSE = b"\x00", b"\x04", b"\x08"
_MAX_SHORT_STRING = 63
_MAX_SMALL_COUNT = 255
_VERSION = 1

_Ids = Mapping[bytes, int]  # ids of the field names in a variant's dictionary
_Values = list[bytes | None]

_kinds = pa.types


def is_shredded(stored: pa.DataType, target: pa.DataType) -> bool:
    """Whether a column of a data file contains shredded variants."""
    return target == VARIANT_TYPE and _kinds.is_struct(stored) and stored.get_field_index(TYPED_VALUE) >= 0


def unshredded(variants: pa.StructArray) -> pa.StructArray:
    """The variants as ``VARIANT_TYPE``.

    Raises:
        pa.ArrowInvalid: The parts do not form valid variants.
    """
    try:
        metadata = pc.struct_field(variants, "metadata").cast(pa.binary())
        ids = {
            encoded_metadata: _ids(encoded_metadata)
            for encoded_metadata in metadata.unique().to_pylist()
            if encoded_metadata is not None
        }
        dictionaries = [ids.get(encoded_metadata, _NO_IDS) for encoded_metadata in metadata.to_pylist()]
        # A missing variant in a column that is not NULL is the variant null.
        values = pa.array([variant or _NULL for variant in _rebuilt(variants, dictionaries)], pa.binary())
    except (IndexError, KeyError, OverflowError, ValueError) as error:
        raise pa.ArrowInvalid(f"a shredded variant cannot be put together: {error}") from error
    mask = variants.is_null() if variants.null_count else None
    return pa.StructArray.from_arrays([values, pc.fill_null(metadata, b"")], fields=list(VARIANT_TYPE), mask=mask)


_NO_IDS: _Ids = {}


def _rebuilt(group: pa.StructArray, dictionaries: Sequence[_Ids]) -> _Values:
    """The encoded value of each row of a group with ``value`` and ``typed_value``; None if missing."""
    parts = dict(zip((field.name for field in group.type), group.flatten(), strict=True))
    rest: _Values = parts["value"].cast(pa.binary()).to_pylist() if "value" in parts else [None] * len(group)
    typed = parts.get(TYPED_VALUE)
    if typed is None:
        return rest
    if isinstance(typed.type, pa.BaseExtensionType):  # a UUID
        typed = typed.storage
    if _kinds.is_struct(typed.type):
        found = _objects(typed, rest, dictionaries)
    elif _kinds.is_list(typed.type) or _kinds.is_large_list(typed.type):
        found = _arrays(typed, dictionaries)
    else:
        found = _primitives(typed)
    return [value if encoded is None else encoded for encoded, value in zip(found, rest, strict=True)]


def _objects(typed: pa.StructArray, rest: _Values, dictionaries: Sequence[_Ids]) -> _Values:
    members = {
        field.name.encode(): _rebuilt(child, dictionaries) for field, child in zip(typed.type, typed.flatten(), strict=True)
    }
    found: _Values = []
    for row, is_object in enumerate(typed.is_valid().to_pylist()):
        if not is_object:
            found.append(None)
            continue
        ids, residue = dictionaries[row], rest[row]
        fields = {} if residue is None else _fields_of(residue, ids)
        fields |= {name: value for name, values in members.items() if (value := values[row]) is not None}
        found.append(_object([(ids[name], fields[name]) for name in sorted(fields)]))
    return found


def _arrays(typed: pa.ListArray, dictionaries: Sequence[_Ids]) -> _Values:
    parents = pc.list_parent_indices(typed).to_pylist()
    elements = _rebuilt(typed.flatten(), [dictionaries[parent] for parent in parents])
    found: _Values = []
    first = 0
    for length in pc.list_value_length(typed).to_pylist():
        if length is None:
            found.append(None)
            continue
        values = [element or _NULL for element in elements[first : first + length]]
        first += length
        large, size = len(values) > _MAX_SMALL_COUNT, _width(sum(map(len, values)))
        header = bytes([(large << 2 | size - 1) << 2 | _ARRAY])
        found.append(b"".join([header, _number(len(values), 4 if large else 1), _offsets(values, size), *values]))
    return found


def _object(fields: Sequence[tuple[int, bytes]]) -> bytes:
    ids, values = [id_ for id_, _ in fields], [value for _, value in fields]
    large, id_size, size = len(fields) > _MAX_SMALL_COUNT, _width(max(ids, default=0)), _width(sum(map(len, values)))
    header = bytes([(large << 4 | id_size - 1 << 2 | size - 1) << 2 | _OBJECT])
    numbers = (_number(id_, id_size) for id_ in ids)
    return b"".join([header, _number(len(fields), 4 if large else 1), *numbers, _offsets(values, size), *values])


def _fields_of(value: bytes, ids: _Ids) -> dict[bytes, bytes]:
    """The fields of an encoded object, by name."""
    header = value[0] >> 2
    if value[0] & 3 != _OBJECT:
        raise ValueError("a shredded object has an invalid value")
    count_size, id_size, size = (4 if header >> 4 & 1 else 1), (header >> 2 & 3) + 1, (header & 3) + 1
    count = _numbers(value, 1, 1, count_size)[0]
    numbers = _numbers(value, 1 + count_size, count, id_size)
    start = 1 + count_size + count * id_size
    offsets = _numbers(value, start, count + 1, size)
    content = value[start + (count + 1) * size :]
    # Values may be in any order; each ends where the next one begins.
    ends = dict(pairwise(sorted({*offsets})))
    names = {number: name for name, number in ids.items()}
    return {names[number]: content[at : ends[at]] for number, at in zip(numbers, offsets, strict=False)}


def _primitives(typed: pa.Array) -> _Values:
    kind = typed.type
    if _kinds.is_boolean(kind):
        return [None if value is None else _TRUE if value else _FALSE for value in typed.to_pylist()]
    if _kinds.is_fixed_size_binary(kind):
        return [None if value is None else bytes([_UUID << 2]) + value for value in typed.to_pylist()]
    if _kinds.is_binary(kind) or _kinds.is_large_binary(kind):
        return _encoded_texts(typed, _BINARY)
    if _kinds.is_string(kind) or _kinds.is_large_string(kind):
        return _encoded_texts(typed.cast(pa.binary()), _STRING)
    prefix, kept = _fixed_width(kind)
    buffer, width = typed.buffers()[1], kind.bit_width // 8
    starts = range(typed.offset * width, (typed.offset + len(typed)) * width, width)
    # Both formats are little-endian; a decimal of few digits drops bytes that only repeat its sign.
    places = zip(starts, typed.is_valid().to_pylist(), strict=True)
    return [prefix + buffer[start : start + kept].to_pybytes() if valid else None for start, valid in places]


def _encoded_texts(typed: pa.Array, number: int) -> _Values:
    def encoded(text: bytes) -> bytes:
        if number == _STRING and len(text) <= _MAX_SHORT_STRING:
            return bytes([len(text) << 2 | 1]) + text
        return bytes([number << 2]) + _number(len(text), 4) + text

    return [None if value is None else encoded(value) for value in typed.to_pylist()]


@cache
def _fixed_width(kind: pa.DataType) -> tuple[bytes, int]:
    """The header byte of a value of this type, and the number of bytes that follow it."""
    if _kinds.is_decimal128(kind):
        decimal, size = next(
            layout for digits, layout in ((9, (8, 4)), (18, (9, 8)), (38, (10, 16))) if kind.precision <= digits
        )
        return bytes([decimal << 2, kind.scale]), size
    number: int | None = {
        pa.int8(): 3,
        pa.int16(): 4,
        pa.int32(): 5,
        pa.int64(): 6,
        pa.float64(): 7,
        pa.date32(): 11,
        pa.float32(): 14,
        pa.time64("us"): 17,
    }.get(kind)
    if _kinds.is_timestamp(kind) and kind.unit in ("us", "ns"):
        number = (12 if kind.tz else 13) + (6 if kind.unit == "ns" else 0)
    if number is None:
        raise ValueError(f"{kind} is not a variant type")
    return bytes([number << 2]), kind.bit_width // 8


def _ids(metadata: bytes) -> _Ids:
    """The field names in a variant's dictionary, with their ids."""
    if not metadata or metadata[0] & 15 != _VERSION:
        raise ValueError("the metadata is of an unknown version")
    size = (metadata[0] >> 6) + 1
    count = _numbers(metadata, 1, 1, size)[0]
    offsets = _numbers(metadata, 1 + size, count + 1, size)
    names = metadata[1 + size * (count + 2) :]
    return {names[start:end]: number for number, (start, end) in enumerate(pairwise(offsets))}


def _numbers(content: bytes, start: int, count: int, size: int) -> list[int]:
    if start + count * size > len(content):
        raise ValueError("it is cut off")
    return [int.from_bytes(content[at : at + size], "little") for at in range(start, start + count * size, size)]


def _offsets(values: Sequence[bytes], size: int) -> bytes:
    place, parts = 0, [_number(0, size)]
    for value in values:
        place += len(value)
        parts.append(_number(place, size))
    return b"".join(parts)


def _width(largest: int) -> int:
    """The number of bytes needed for a number."""
    return max(1, (largest.bit_length() + 7) // 8)


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")
