"""Untrusted values (from a table's log, a result document, an XCom), made safe to print, to store as JSON and to add up."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]")
"""Control characters (C0, C1), line and paragraph separators, bidirectional marks, lone surrogates, tag characters."""

_UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that a JSON column of Postgres, MessagePack or UTF-8 cannot hold."""

_LONG = 1 << 63
_DIGITS = 19  # of a 64-bit integer
_MOST_BITS = 10_000  # by default, Python converts no integer of more than 4,300 digits to text
_DEPTH = 64
_LAST_OF_PLANE = 0xFFFF  # the last code point that JSON writes as a single \u escape


def printable(text: str) -> str:
    r"""The text, with escapes such as ``\x1b`` for characters that move the cursor, begin a line or turn the direction."""
    return _UNPRINTABLE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """As ``printable``, but line breaks stay: for tracebacks."""
    return "\n".join(map(printable, text.split("\n")))


def lone_surrogate(text: str) -> str | None:
    r"""The first lone surrogate in the text, which UTF-8 cannot encode, as ``\ud83d``; None if all is valid."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return ascii(text[error.start])[1:-1]
    return None


def natural_number(value: Any) -> int | None:
    """A count: an int from 0 to the largest 64-bit integer, or its decimal digits as text; None for anything else."""
    if isinstance(value, str) and len(value) <= _DIGITS and value.isascii() and value.isdecimal():
        value = int(value)
    return value if type(value) is int and 0 <= value < _LONG else None


def moment(milliseconds: int) -> str:
    """Milliseconds since the epoch as a readable time in UTC; as a plain number if Python has no such year."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return f"{time.replace(tzinfo=None).isoformat(' ', 'milliseconds')} UTC"


def json_value(value: Any, *, depth: int = _DEPTH) -> Any:
    """The value as JSON that every store and every parser accepts; ordinary JSON values stay unchanged.

    Integers of more than 64 bits, non-finite floats, and values that JSON has no form for become text. Characters that UTF-8
    cannot hold become escapes. Whatever is nested deeper than ``depth`` is left out.
    """
    match value:
        case str():
            return _UNENCODABLE.sub(_escape, value)
        case None | bool():
            return value
        case int():
            return value if -_LONG <= value < _LONG else _large(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping() | list() | tuple() | set() | frozenset() if depth == 0:
            return "..."
        case Mapping():
            return {_key(name): json_value(member, depth=depth - 1) for name, member in value.items()}
        case list() | tuple() | set() | frozenset():
            return json_values(value, depth=depth - 1)
        case _:
            return json_value(str(value))


def json_values(values: Iterable[Any], *, depth: int = _DEPTH) -> list[Any]:
    """Each value as ``json_value`` gives it."""
    return [json_value(value, depth=depth) for value in values]


def json_text(document: Any, *, ensure_ascii: bool = True) -> str:
    """The value as one line of JSON text; characters that a terminal would act on are escaped, even where JSON allows them."""
    text = json.dumps(json_value(document), ensure_ascii=ensure_ascii)
    return _UNPRINTABLE.sub(_json_escape, text)


def _key(name: Any) -> str:
    return str(json_value(name if isinstance(name, str | int) else str(name)))


def _large(number: int) -> str:
    return str(number) if number.bit_length() <= _MOST_BITS else "a number of too many digits"


def _escape(character: re.Match[str]) -> str:
    return character[0].encode("unicode_escape").decode()


def _json_escape(character: re.Match[str]) -> str:
    code = ord(character[0])
    return f"\\u{code:04x}" if code <= _LAST_OF_PLANE else json.dumps(character[0])[1:-1]


def text_members(value: Any) -> dict[str, str]:
    """The members of a JSON object whose values are text; empty if the value is not an object."""
    found = value if isinstance(value, Mapping) else {}
    return {key: text for key, text in found.items() if isinstance(text, str)}
