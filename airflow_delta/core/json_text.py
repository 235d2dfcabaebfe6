"""Parsing of untrusted JSON with bounded work and memory.

Anyone who can write below a table's root controls its log, schema and hints. No Delta writer exceeds these bounds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

MAX_BYTES = 64 << 20
"""Bytes of a document that Python parses. Arrow parses file actions, which may be longer."""

MAX_VALUES = 500_000
"""Values in a document at any depth, estimated by its commas and brackets. While Python parses it, no other thread runs."""

MAX_DEPTH = 200
"""Nesting depth of arrays and objects; each struct type in a schema takes three levels."""

MAX_DIGITS = 20
"""Characters of an integer: 64 bits need 19 and a sign. A longer one becomes text, which no numeric field accepts."""

Members = list[tuple[str, Any]]


class JsonTooLongError(ValueError):
    """A JSON text exceeds the bound on bytes or on values."""


def parse_json(text: str | bytes, *, unique_names: bool = False, number: Callable[[str], Any] | None = None) -> Any:
    """The value of a JSON text.

    Args:
        text: The JSON text.
        unique_names: Whether two members of the same name in one object are an error; otherwise the last one counts.
        number: Converts the text of a number; when None, numbers become Python numbers, and integers that are too long become
            text.

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
