"""Thrift's compact protocol, which the footers of Parquet files are written in: values read of any struct, and written again.

Specification: apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Kinds of values; as a field's kind, the first two are its value, too."""

_MOST_LEVELS = 32
_LONG_LIST = 15
_DOUBLE_BYTES = 8
_MOST_BITS = 64


class Field(NamedTuple):
    """A field of a struct."""

    kind: int
    value: Any


class Items(NamedTuple):
    """A list: its values are all of one kind."""

    kind: int
    values: list[Any]


Struct: TypeAlias = dict[int, Field]
"""By the numbers of the fields."""


def read_struct(content: bytes, start: int = 0) -> Struct:
    """The struct that begins there.

    Raises:
        ValueError: There is none, or one with a kind of value that Parquet does not use.
    """
    try:
        return _Reader(content, start).struct(0)
    except IndexError as error:
        raise ValueError("the struct does not end") from error


def struct_bytes(struct: Struct) -> bytes:
    """The struct as ``read_struct`` reads it."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reader:
    def __init__(self, content: bytes, start: int) -> None:
        self._content = content
        self._at = start

    def struct(self, level: int) -> Struct:
        _check_level(level)
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 0xF
            fields[number] = Field(kind, kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, level))
        return fields

    def _value(self, kind: int, level: int) -> Any:
        match kind:
            case 1 | 2 | 3:  # truth values, and bytes, of a list
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return self._bytes(_DOUBLE_BYTES)
            case 8:
                return self._bytes(self._unsigned())
            case 9 | 10:
                _check_level(level)
                head = self._byte()
                size = self._unsigned() if head >> 4 == _LONG_LIST else head >> 4
                return Items(head & 0xF, [self._value(head & 0xF, level + 1) for _ in range(size)])
            case 12:
                return self.struct(level + 1)
        raise ValueError(f"a value of the kind {kind}")

    def _byte(self) -> int:
        byte = self._content[self._at]
        self._at += 1
        return byte

    def _bytes(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("the struct does not end")
        self._at += size
        return taken

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follow
                return number
            shift += 7
            if shift >= _MOST_BITS:
                raise ValueError("a number of more than 64 bits")

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)


def _check_level(level: int) -> None:
    if level > _MOST_LEVELS:
        raise ValueError("structs and lists lie in each other too often")


def _write_struct(out: bytearray, struct: Struct) -> None:
    former = 0
    for number, (kind, value) in sorted(struct.items()):
        written = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < number - former <= 0xF:  # noqa: PLR2004 - what half a byte holds
            out.append((number - former) << 4 | written)
        else:
            out.append(written)
            _write_signed(out, number)
        former = number
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    match kind:
        case 1 | 2 | 3:
            out.append(value)
        case 4 | 5 | 6:
            _write_signed(out, value)
        case 7:
            out += value
        case 8:
            _write_unsigned(out, len(value))
            out += value
        case 9 | 10:
            _write_items(out, value.kind, value.values)
        case 12:
            _write_struct(out, value)


def _write_items(out: bytearray, kind: int, values: Iterable[Any]) -> None:
    items = list(values)
    if len(items) < _LONG_LIST:
        out.append(len(items) << 4 | kind)
    else:
        out.append(_LONG_LIST << 4 | kind)
        _write_unsigned(out, len(items))
    for item in items:
        _write_value(out, kind, item)


def _write_signed(out: bytearray, number: int) -> None:
    _write_unsigned(out, number << 1 if number >= 0 else ~(number << 1))


def _write_unsigned(out: bytearray, number: int) -> None:
    while number > 0x7F:  # noqa: PLR2004
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
