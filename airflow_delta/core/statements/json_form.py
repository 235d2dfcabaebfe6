"""Statements as JSON, both ways, by a closed list of types: nothing else is ever built from a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    CheckpointStatement,
    Expectation,
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    NotMatchedInsert,
    OptimizeStatement,
    SqlSource,
    Statement,
    TableSource,
    VacuumStatement,
    WriteStatement,
)

TYPE_KEY = "$type"

TYPES: dict[str, Any] = {
    "checkpoint": CheckpointStatement,
    "expectation": Expectation,
    "files": FileSource,
    "matched_delete": MatchedDelete,
    "matched_update": MatchedUpdate,
    "merge": MergeStatement,
    "not_matched_insert": NotMatchedInsert,
    "optimize": OptimizeStatement,
    "sql": SqlSource,
    "table": TableSource,
    "vacuum": VacuumStatement,
    "write": WriteStatement,
}
"""The name in JSON to the type. A name, once released, keeps its meaning."""

_NAMES = {each: name for name, each in TYPES.items()}


def is_statement_value(value: Any) -> bool:
    """Whether the value is a statement, or a part of one such as a source or a clause."""
    return type(value) in _NAMES


def to_json(value: Any) -> dict[str, Any]:
    """A statement, or a part of one, as a JSON object. Raises ``InvalidStatementError`` for what has no JSON form."""
    document = _encode(value)
    if not isinstance(document, dict) or TYPE_KEY not in document:
        raise InvalidStatementError(statement=type(value).__name__, detail="it is no statement")
    return document


def statement_from_json(document: Any) -> Statement:
    """The statement that ``to_json`` described.

    Raises:
        InvalidStatementError: An unknown type, an unknown or missing field, or a value that the type refuses.
    """
    value = _decode(document)
    if not isinstance(value, Statement):
        raise InvalidStatementError(statement=type(value).__name__, detail="it is no statement")
    return value


def map_texts(value: Any, change: Callable[[str], Any]) -> Any:
    """The value built again with each text in it (not the keys of mappings) replaced by what ``change`` makes of it."""
    if isinstance(value, str):
        return change(value)
    if is_statement_value(value):
        return TYPES[_NAMES[type(value)]](**{each.name: map_texts(getattr(value, each.name), change) for each in fields(value)})
    if isinstance(value, Mapping):
        return {key: map_texts(each, change) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return tuple(map_texts(each, change) for each in value)
    return value


def _encode(value: Any) -> Any:
    if isinstance(value, TableSource):
        value = replace(value, version=value.version_number)  # a template that was never rendered must not travel
    if is_statement_value(value):
        return {TYPE_KEY: _NAMES[type(value)]} | {each.name: _encode(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        if TYPE_KEY in value or not all(isinstance(key, str) for key in value):
            raise InvalidStatementError(
                statement="mapping", detail=f"keys must be texts other than {TYPE_KEY}: {dict(value)!r}"
            )
        return {key: _encode(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(each) for each in value]
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise InvalidStatementError(statement=type(value).__name__, detail=f"{value!r} has no JSON form")


def _decode(document: Any) -> Any:
    if isinstance(document, list):
        return tuple(_decode(each) for each in document)
    if not isinstance(document, Mapping):
        return document
    if TYPE_KEY not in document:
        return {key: _decode(each) for key, each in document.items()}
    name = document[TYPE_KEY]
    if not isinstance(name, str) or name not in TYPES:
        raise InvalidStatementError(statement=str(name), detail=f"the type is none of {', '.join(TYPES)}")
    values = {key: _decode(each) for key, each in document.items() if key != TYPE_KEY}
    try:
        return TYPES[name](**values)
    except TypeError as error:
        raise InvalidStatementError(statement=name, detail=str(error)) from error
