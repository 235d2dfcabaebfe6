"""The checks that several statements share, one named validator each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.expectation import Expectation


def require_text(statement: str, name: str, value: Any) -> None:
    """Raise ``InvalidStatementError`` unless the value is text with something in it."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidStatementError(statement=statement, detail=f"{name} must be a text, but is {value!r}")


def require_type(statement: str, name: str, value: Any, types: Any) -> None:
    """Raise ``InvalidStatementError`` unless the value is one of these types."""
    if not isinstance(value, types):
        raise InvalidStatementError(statement=statement, detail=f"{name} cannot be {value!r}")


def expectations(statement: str, values: Iterable[Expectation | str] | Expectation | str) -> tuple[Expectation, ...]:
    """The expectations of a statement; a plain text is one, and a single one needs no list."""
    listed = (values,) if isinstance(values, Expectation | str) else tuple(values)
    for each in listed:
        require_type(statement, "an expectation", each, (Expectation, str))
    return tuple(Expectation(each) if isinstance(each, str) else each for each in listed)
