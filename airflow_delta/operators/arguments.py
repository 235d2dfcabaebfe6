"""Rendered arguments become the values of statements. Templates render to texts, so numbers arrive as texts too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import Source, TableSource


def source_of(source: str | Source, version: int | str | None) -> Source:
    """The source that an operator was given; a text is the URI of a Delta table."""
    value = TableSource(source) if isinstance(source, str) else source
    if version is None:
        return value
    if not isinstance(value, TableSource):
        raise InvalidStatementError(statement=type(value).__name__, detail="source_version goes with a Delta table only")
    return replace(value, version=version)


def number(name: str, value: Any, kind: type[int | float] = int) -> Any:
    """The number that an argument means, or None for none."""
    try:
        return None if value is None else kind(value)
    except (TypeError, ValueError):
        raise InvalidStatementError(statement="operator", detail=f"{name} is {value!r}, which is no number") from None


def check_word(name: str, value: Any, words: Any) -> None:
    """See that an argument that is no template is one of the words of a ``Literal``: a misspelt one would mean the default.

    Raises:
        InvalidStatementError: It is none.
    """
    if value not in get_args(words):
        raise InvalidStatementError(statement="operator", detail=f"{name} is {value!r}, not one of {list(get_args(words))}")
