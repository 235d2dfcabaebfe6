"""Flags, numbers, words and times in the fields of statements: strictly checked, and also accepted as text.

A template renders to text (``"False"``, ``"7"``), so a text counts as the value that it spells; any other text is refused. In a
DAG file a field may hold a template that is not yet rendered: it is kept, and checked when the statement is built again from
the rendered text. ``require_rendered`` makes sure that no template leaves the DAG file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import fields
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.errors.statement import NOTHING_RENDERED

Number = Annotated[int | str, int]
"""A whole number, its text, or a template that renders to such a text."""

Time = Annotated[int | str, datetime]
"""Milliseconds since the epoch, or ISO 8601 text (UTC where it names no zone)."""

_TEMPLATE_MARKS = ("{{", "{%", "{#")
_DESCRIBED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    datetime: "an ISO date or time",
}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")  # digits of a 64-bit integer
_DECIMAL = re.compile(r"[+-]?([0-9]{1,19}(\.[0-9]{0,18})?|\.[0-9]{1,18})(e[+-]?[0-9]{1,3})?", re.IGNORECASE)
_DATE_DIGITS = 8  # a date without dashes, YYYYMMDD; more digits are milliseconds
_SHOWN = 100


def is_template(value: Any) -> bool:
    """Whether the value is a text that Jinja would render to something else."""
    return isinstance(value, str) and any(mark in value for mark in _TEMPLATE_MARKS)


def convert_fields(value: Any) -> None:
    """Convert texts in the flag, number, word and time fields of a value to the types that its annotations name.

    Raises:
        InvalidStatementError: A field holds a value of another kind.
    """
    for name, kind in _scalar_kinds(_type(value)).items():
        given = getattr(value, name)
        converted = converted_value(type(value).__name__, name, given, kind)
        if converted is not given:
            object.__setattr__(value, name, converted)


def converted_value(statement: str, name: str, value: Any, kind: Any) -> Any:
    """The value converted to the type that the annotation names; a template stays as it is.

    Args:
        statement: Name of the statement, for the error.
        name: Name of the field.
        value: The value as given, or as a template has rendered it.
        kind: ``bool``, ``int``, ``float``, ``str``, a ``Literal`` or ``StrEnum`` of words, ``Number``, ``Time``, or a union of
            some of these.

    Raises:
        InvalidStatementError: The value is not of that kind; the message says what is allowed.
    """
    alternatives = _alternatives(kind)
    if is_template(value) or (value is None and type(None) in alternatives):
        return value
    for alternative in alternatives:
        found = _value(value, alternative)
        if found is not None:
            return found
    allowed = " or ".join(filter(None, map(_described, alternatives)))
    words = [word for alternative in alternatives for word in _words(alternative)]
    detail = f"{name} must be {allowed}, found {shortened(value)}"
    detail += nearest(value, words) or (NOTHING_RENDERED if value == "None" else "")
    if not isinstance(value, Collection) and is_template(text := str(value)):  # such as an XComArg, the output of another task
        detail += f'; give it as the text "{text}", and set that task before this one'
    raise InvalidStatementError(statement=statement, detail=detail)


def is_settled(value: Any, *names: str) -> bool:
    """Whether none of these fields still holds a template, so that rules about several of them can be checked.

    A template in a text field counts as text, whatever it renders to.
    """
    return not any(_waits(getattr(value, name), _kinds(_type(value))[name]) for name in names)


def require_rendered(value: Any) -> None:
    """Raise ``InvalidStatementError`` if a field still holds a template instead of its value."""
    for name in _kinds(_type(value)):
        if not is_settled(value, name):
            detail = f"{name} is {shortened(getattr(value, name))}, a template that was not rendered"
            raise InvalidStatementError(statement=type(value).__name__, detail=detail)


def exclude_each_other(value: Any, *names: str) -> None:
    """Raise ``InvalidStatementError`` if more than one of these fields is given."""
    given = [name for name in names if getattr(value, name) not in (None, (), "") and getattr(value, name) is not False]
    if len(given) > 1 and is_settled(value, *given):
        detail = f"{' and '.join(given)} exclude each other; give one of them"
        raise InvalidStatementError(statement=type(value).__name__, detail=detail)


def shortened(value: Any) -> str:
    """The value, shortened for an error message."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def nearest(value: Any, words: Iterable[str]) -> str:
    """The end of an error message: the word that was probably meant, if one is similar."""
    found = get_close_matches(value.strip().lower(), list(words), n=1) if isinstance(value, str) else []
    return f"; did you mean {str(found[0])!r}?" if found else ""


def _waits(value: Any, kinds: tuple[Any, ...]) -> bool:
    if isinstance(value, tuple):
        members = next((get_args(kind) for kind in kinds if get_origin(kind) is tuple), ())
        members = members[:1] * len(value) if Ellipsis in members else members
        return any(_waits(part, _alternatives(member)) for part, member in zip(value, members, strict=False))
    return is_template(value) and str not in kinds


def _type(value: Any) -> Any:
    return type(value)


@cache
def _kinds(owner: Any) -> dict[str, tuple[Any, ...]]:
    """The allowed types of each field of a statement type."""
    hints = get_type_hints(owner, include_extras=True)
    return {field.name: _alternatives(hints[field.name]) for field in fields(owner)}


@cache
def _scalar_kinds(owner: Any) -> dict[str, Any]:
    hints = get_type_hints(owner, include_extras=True)
    return {name: hints[name] for name, kinds in _kinds(owner).items() if all(map(_is_scalar, kinds))}


def _alternatives(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) in (Union, UnionType):
        return tuple(part for member in get_args(kind) for part in _alternatives(member))
    return (kind.__metadata__[0],) if get_origin(kind) is Annotated else (kind,)


def _is_scalar(kind: Any) -> bool:
    return bool(_words(kind)) or kind in (bool, int, float, str, datetime, type(None))


def _value(value: Any, kind: Any) -> Any:
    """The value converted to that type; None if it cannot be converted."""
    if kind is str:
        return value if isinstance(value, str) else None
    if words := _words(kind):
        return next((word for word in words if word == value), None)
    if not isinstance(value, bool | int | float | str):
        return None
    text = str(value).strip()
    if kind is bool:
        return _FLAGS.get(text.lower())
    if kind is int or (kind is datetime and isinstance(value, int)):
        return int(text) if _WHOLE.fullmatch(text) else None
    if kind is float:
        return _finite(float(text)) if _DECIMAL.fullmatch(text) else None
    return _time(text) if kind is datetime else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _time(text: str) -> int | str | None:
    if _WHOLE.fullmatch(text) and len(text) > _DATE_DIGITS:
        return int(text)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _words(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(kind) if isinstance(kind, type) and issubclass(kind, StrEnum) else ()


def _described(kind: Any) -> str:
    words = _words(kind)
    return f"one of {', '.join(words)}" if words else _DESCRIBED.get(kind, "")
