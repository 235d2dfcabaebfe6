"""Checks shared by several statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from operator import index
from types import NoneType
from typing import Any, get_args

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.fields import is_template, shortened


def require_text(statement: str, name: str, value: Any) -> None:
    """Raise ``InvalidStatementError`` unless the value is a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        wanted = "a text with something in it" if isinstance(value, str) else "a text"
        raise InvalidStatementError(statement=statement, detail=f"{name} must be {wanted}, found {shortened(value)}")


def require_type(statement: str, name: str, value: Any, types: Any) -> None:
    """Raise ``InvalidStatementError`` unless the value is one of these types."""
    if not isinstance(value, types):
        wanted = [_described(kind) for kind in get_args(types) or (types if isinstance(types, tuple) else (types,))]
        detail = f"{name} must be {one_of(wanted)}, found {shortened(value)}"
        raise InvalidStatementError(statement=statement, detail=detail)


def whole_number(statement: str, name: str, value: Any) -> int:
    """The value as an int, whether Python's or NumPy's. Raises ``InvalidStatementError`` unless it is a whole number."""
    try:
        return index(value)
    except TypeError:
        detail = f"{name} must be a whole number, found {shortened(value)}"
        raise InvalidStatementError(statement=statement, detail=detail) from None


def require_texts(value: object, *names: str) -> None:
    """Raise ``InvalidStatementError`` unless these attributes of the value are texts that are not blank."""
    for name in names:
        require_text(type(value).__name__, name, getattr(value, name))


def require_mapping(statement: str, name: str, value: Any) -> None:
    """Raise ``InvalidStatementError`` unless the value maps texts to texts, or may render to such a mapping."""
    if is_template(value):
        return
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise InvalidStatementError(statement=statement, detail=f"{name} must map texts to texts, found {shortened(value)}")


def require_point(statement: str, version: Any, timestamp: Any) -> None:
    """Raise ``InvalidStatementError`` unless exactly one of version and timestamp is given."""
    if (version is None) == (timestamp is None):
        raise InvalidStatementError(statement=statement, detail="give either a version or a timestamp")


def members(statement: str, name: str, values: Any) -> tuple[Any, ...]:
    """The members of a list, in order.

    Raises:
        InvalidStatementError: The value is not a list. A mapping would lose its values, and a set has a different order in each
            process, so that a retry would not recognize its own statement.
    """
    if isinstance(values, set | frozenset):
        detail = f"{name} must be a list, found the set {shortened(values)}, whose order differs from process to process"
        raise InvalidStatementError(statement=statement, detail=f"{detail}; write a list")
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InvalidStatementError(statement=statement, detail=f"{name} must be a list, found {shortened(values)}")
    return tuple(values)


def texts(statement: str, name: str, values: Iterable[str] | str, *, may_be_empty: bool = False) -> tuple[str, ...]:
    """The texts as a tuple; a single text needs no list. Raises ``InvalidStatementError`` for other values, or if empty."""
    listed = (values,) if isinstance(values, str) else members(statement, name, values)
    if not listed and not may_be_empty:
        raise InvalidStatementError(statement=statement, detail=f"{name} must not be empty")
    for text in listed:
        require_text(statement, f"each of {name}", text)
    return listed


def expectations(statement: str, values: Iterable[Expectation | str] | Expectation | str) -> tuple[Expectation, ...]:
    """The expectations of a statement; a plain text counts as one, and a single one needs no list."""
    listed = (values,) if isinstance(values, Expectation | str) else members(statement, "expect", values)
    for expectation in listed:
        require_type(statement, "an expectation", expectation, (Expectation, str))
    return tuple(Expectation(expectation) if isinstance(expectation, str) else expectation for expectation in listed)


def one_of(alternatives: Iterable[str]) -> str:
    """The alternatives as an error message lists them: ``a, b or c``."""
    *others, last = alternatives
    return f"{', '.join(others)} or {last}" if others else last


def _described(kind: Any) -> str:
    """The name of a type in error messages."""
    return {str: "a text", Real: "a number", Mapping: "a mapping", NoneType: "None"}.get(kind, f"{kind.__name__}(...)")
