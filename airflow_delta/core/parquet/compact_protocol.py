"""Thrift's compact protocol, in which footers of Parquet files are encoded: reads values of any struct, and writes them.

Specification: apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Kinds of values; for a field, the first two also are its value."""

_MOST_LEVELS = 32
_LONG_LIST = 15
_DOUBLE_BYTES = 8
_MOST_BITS = 64
_SIZES = {TRUE: 0, FALSE: 0, I8: 1, DOUBLE: _DOUBLE_BYTES}
"""Bytes of a field's value, for kinds of fixed size."""
_MOST_FIELD = (1 << 15) - 1
_MOST_ITEMS = 1 << 22
"""Most items of all lists together, when only parts of untrusted structs are read: takes a few seconds."""
_HEADS = bytes(step << 4 | kind for step in range(1, 16) for kind in (I16, I32, I64))
_INTEGERS = re.compile(rb"(?:[" + re.escape(_HEADS) + rb"][\x80-\xff]*[\x00-\x7f])*")
"""Matches consecutive fields with integer values."""


class Field(NamedTuple):
    """A field of a struct."""

    kind: int
    value: Any


class Items(NamedTuple):
    """A list, whose values all have the same kind."""

    kind: int
    values: list[Any]


Struct: TypeAlias = dict[int, Field]
"""Fields by field number."""


class Wanted(NamedTuple):
    """What to read of a struct; everything else is skipped.

    Attributes:
        fields: Field numbers, each with what to read of its struct; None for a plain value, or a list of them. If a struct or a
            list is found instead, only its kind is kept, with the value None, as it may be of any size.
        lists: Expected kind of the items of lists, by field; other readers rely on it, whatever the list itself says.
    """

    fields: Mapping[int, Wanted | None]
    lists: Mapping[int, int] = {}


def read_struct(content: bytes, start: int = 0) -> Struct:
    """The struct that begins at ``start``.

    Raises:
        ValueError: There is no struct, or it contains a kind of value that Parquet does not use.
    """
    return read_struct_until(content, start)[0]


def read_struct_until(content: bytes, start: int = 0) -> tuple[Struct, int]:
    """The struct that begins at ``start``, and the offset of its end. Raises as ``read_struct``."""
    reader = _Reader(content, start)
    try:
        return reader.struct(0), reader.position
    except IndexError as error:
        raise ValueError("the struct does not end") from error


def nested_structs(content: bytes, path: Sequence[int], wanted: Wanted) -> Iterator[tuple[int, Struct]]:
    """The structs of the innermost lists, one after the other, each with its index in its list.

    Args:
        content: The outermost struct.
        path: Field of a list of structs; in those, field of another such list, and so on. Other lists beside them must be lists
            of structs, too.
        wanted: What to read of the structs.

    Raises:
        ValueError: As ``read_struct``; or a list has items of an unexpected kind, or there are too many items.
    """
    try:
        yield from _Reader(content, 0, _MOST_ITEMS).nested(path, wanted)
    except IndexError as error:
        raise ValueError("the struct does not end") from error


def struct_bytes(struct: Struct) -> bytes:
    """Encode the struct, the reverse of ``read_struct``."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reader:
    def __init__(self, content: bytes, start: int, most_items: int | None = None) -> None:
        self._content = content
        self._at = start
        self._left = len(content) if most_items is None else most_items  # an item takes at least a byte

    @property
    def position(self) -> int:
        return self._at

    def nested(self, path: Sequence[int], wanted: Wanted) -> Iterator[tuple[int, Struct]]:
        for number, kind in self._fields():
            if (number, kind) != (path[0], LIST):
                self._pass(kind, 0, STRUCT)
                continue
            for place in range(self._items(STRUCT)[1]):
                if len(path) > 1:
                    yield from self.nested(path[1:], wanted)
                else:
                    yield place, self.struct(0, wanted)

    def struct(self, level: int, wanted: Wanted | None = None) -> Struct:
        _check_level(level)
        struct: Struct = {}
        inner, lists = wanted or (None, {})
        for number, kind in self._fields():
            if inner is not None and number not in inner:
                self._pass(kind, level, lists.get(number))
            elif number in struct:
                raise ValueError(f"the field {number} comes twice")
            elif kind in (TRUE, FALSE):
                struct[number] = Field(kind, kind == TRUE)
            elif inner is not None and _is_unexpected(kind, inner[number], is_list=number in lists):
                self._pass(kind, level)
                struct[number] = Field(kind, None)
            else:
                value = self._value(kind, level, None if inner is None else inner[number], lists.get(number))
                struct[number] = Field(kind, value)
        return struct

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Number and kind of each field; after each, the caller must read or skip its value."""
        number, content = 0, self._content
        while head := content[self._at]:
            self._at += 1
            number = number + step if (step := head >> 4) else self._signed()
            if not -_MOST_FIELD <= number <= _MOST_FIELD:
                raise ValueError(f"a field with the number {number}")
            yield number, head & 0xF
        self._at += 1

    def _items(self, expected: int | None = None) -> tuple[int, int]:
        """Kind and number of the items of a list."""
        head = self._byte()
        if expected is not None and head & 0xF != expected:
            raise ValueError(f"a list of items of the kind {head & 0xF} where {expected} is known")
        size = self._unsigned() if head >> 4 == _LONG_LIST else head >> 4
        self._left -= size
        if self._left < 0:
            raise ValueError("lists of too many items")
        return head & 0xF, size

    def _value(self, kind: int, level: int, wanted: Wanted | None = None, items: int | None = None) -> Any:
        match kind:
            case 1 | 2 | 3:  # booleans and bytes in a list
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return self._bytes(_DOUBLE_BYTES)
            case 8:
                return self._bytes(self._unsigned())
            case 9 | 10:
                _check_level(level)
                item, size = self._items(items)
                return Items(item, [self._value(item, level + 1, wanted) for _ in range(size)])
            case 12:
                return self.struct(level + 1, wanted)
        raise ValueError(f"a value of the kind {kind}")

    def _pass(self, kind: int, level: int, items: int | None = None) -> None:
        """Skip a field's value."""
        if I16 <= kind <= I64:
            while self._content[self._at] > 0x7F:  # noqa: PLR2004 - the highest bit says that more follow
                self._at += 1
            self._at += 1
        elif kind == BINARY:
            size = self._unsigned()
            self._at += size
        elif kind == STRUCT:
            _check_level(level)
            if integers := _INTEGERS.match(self._content, self._at):
                self._at = integers.end()
            for _, inner in self._fields():
                self._pass(inner, level + 1)
        elif kind in (LIST, SET):
            self._pass_items(level, items)
        elif kind in _SIZES:
            self._at += _SIZES[kind]
        else:
            raise ValueError(f"a value of the kind {kind}")

    def _pass_items(self, level: int, expected: int | None) -> None:
        _check_level(level)
        kind, size = self._items(expected)
        if kind in (TRUE, FALSE, I8):
            self._at += size
            return
        for _ in range(size):
            self._pass(kind, level + 1)

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
        if (byte := self._content[self._at]) <= 0x7F:  # noqa: PLR2004 - most are small
            self._at += 1
            return byte
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


def _is_unexpected(kind: int, wanted: Wanted | None, *, is_list: bool) -> bool:
    return not is_list if kind in (LIST, SET) else kind == STRUCT and wanted is None


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
