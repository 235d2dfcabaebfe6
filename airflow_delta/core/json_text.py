"""Untrusted JSON, parsed with bounded work and memory.

Every user who can write below a table controls its log, schema and hints. No writer of Delta tables exceeds these bounds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

MAX_BYTES = 64 << 20
"""Of a document that Python parses. File actions are parsed by Arrow, and may be longer."""

MAX_VALUES = 500_000
"""Of a document at any depth, with the commas in its texts: while Python parses it, no other thread runs."""

MAX_DEPTH = 200
"""Arrays and objects within each other; a struct type in a schema takes three of them."""

MAX_DIGITS = 20
"""Characters of an integer, which has 19 and a sign in 64 bits. A longer one becomes a text, which no number's field takes."""

Members = list[tuple[str, Any]]


class JsonTooLongError(ValueError):
    """A JSON text has more bytes or values than the bounds."""


def parse_json(text: str | bytes, *, unique_names: bool = False, number: Callable[[str], Any] | None = None) -> Any:
    """The value of a JSON text.

    Args:
        text: As in a file or in a member of another document.
        unique_names: Whether an object with two members of one name is an error; otherwise the last one counts.
        number: Makes a number of its text; all but the long integers become numbers of Python when None.

    Raises:
        JsonTooLongError: It has more bytes or values than the bounds above.
        ValueError: It is not JSON, or exceeds another of these bounds.
    """
    if len(text) > MAX_BYTES:
        raise JsonTooLongError(f"a JSON text of {len(text)} bytes; the bound is {MAX_BYTES}")
    nested = _count(text, "{") + _count(text, "[")
    if (values := nested + _count(text, ",")) > MAX_VALUES:
        raise JsonTooLongError(f"a JSON text of {values} values; the bound is {MAX_VALUES}")
    try:
        document = json.loads(
            text,
            parse_int=number or _integer,
            parse_float=number,
            parse_constant=number,
            object_pairs_hook=_unique if unique_names else None,
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if nested > MAX_DEPTH:
        _check_depth(document)
    return document


_TOO_DEEP = f"a JSON text nested deeper than {MAX_DEPTH}, which is the bound"


def _count(text: str | bytes, character: str) -> int:
    return text.count(character) if isinstance(text, str) else text.count(character.encode())


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= MAX_DIGITS else text


def _unique(members: Members) -> dict[str, Any]:
    document = dict(members)
    if len(document) != len(members):
        raise ValueError("a name occurs twice")
    return document


def _check_depth(document: Any) -> None:
    level, depth = [document], 0
    while level := [child for value in level for child in _nested(value)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)


def _nested(value: Any) -> list[Any]:
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [child for child in found if isinstance(child, dict | list)]
