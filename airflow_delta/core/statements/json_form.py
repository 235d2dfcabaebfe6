"""Statements to and from JSON, with a closed list of types: no other type is ever built from a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, get_args

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import AsOf, Clause, Expectation, PinnedTable, Source, SqlSource, Statement, TableChange
from airflow_delta.core.statements.fields import require_rendered
from airflow_delta.core.statements.publish import StagedHandle

TYPE_KEY = "$type"

CODE_FIELD = "code"
"""Name of fields that hold Python source: braces in it are Python's, not a template's."""

ARGUMENTS_FIELD = "arguments"
"""Name of fields that hold the arguments of a Python function."""

_VALUES = frozenset(get_args(Statement | Clause | TableChange | Source | AsOf | Expectation | PinnedTable | StagedHandle))

TYPES: dict[str, Any] = {kind.type_name: kind for kind in sorted(_VALUES, key=lambda kind: kind.type_name)}
"""The type by its name in JSON. Once released, a name keeps its meaning."""


def is_statement_value(value: Any) -> bool:
    """Whether the value is a statement, or a part of one such as a source or a clause."""
    return type(value) in _VALUES


def to_json(value: Any, *, with_defaults: bool = True) -> dict[str, Any]:
    """A statement, or a part of one, as a JSON object.

    Args:
        value: The statement.
        with_defaults: Whether to write fields that have their default value. Without them, documents stay equal when a later
            version adds a field; fields that do not count in comparisons are left out, too.

    Raises:
        InvalidStatementError: The value has no JSON form.
    """
    document = _encode(value, with_defaults=with_defaults)
    if not isinstance(document, dict) or TYPE_KEY not in document:
        raise InvalidStatementError(statement=type(value).__name__, detail="it is not a statement")
    return document


def statement_from_json(document: Any) -> Statement:
    """The statement that ``to_json`` wrote.

    Raises:
        InvalidStatementError: An unknown type, an unknown or missing field, a value that the type refuses, or parts nested too
            deep.
    """
    try:
        value = _decode(document)
    except RecursionError as error:
        raise InvalidStatementError(statement="the document", detail="its parts are nested too deeply") from error
    if not isinstance(value, Statement):
        raise InvalidStatementError(statement=type(value).__name__, detail="it is not a statement")
    return value


def map_texts(value: Any, change: Callable[[str], Any], *, argument: Callable[[str], Any] | None = None) -> Any:
    """The value rebuilt with ``change`` applied to each text in it, except for keys of mappings and Python source.

    Args:
        value: The value.
        change: Gives the replacement of a text.
        argument: Gives the replacement of a text in the arguments of a Python function; ``change`` when None.
    """
    if isinstance(value, str):
        return change(value)

    def changed(name: str, part: Any) -> Any:
        if name == CODE_FIELD:
            return part
        return map_texts(part, (argument or change) if name == ARGUMENTS_FIELD else change, argument=argument)

    return _rebuilt(value, changed)


def map_tables(value: Any, change: Callable[[str], str]) -> Any:
    """The value rebuilt with each name of a Delta table changed, which are the fields called ``table``."""

    def changed(name: str, part: Any) -> Any:
        return change(part) if name == "table" and isinstance(part, str) else map_tables(part, change)

    return _rebuilt(value, changed)


def map_queries(value: Any, change: Callable[[SqlSource], SqlSource]) -> Any:
    """The value rebuilt with each query in it changed."""
    if isinstance(value, SqlSource):
        return change(value)
    return _rebuilt(value, lambda _, part: map_queries(part, change))


def table_names(value: Any) -> list[str]:
    """The names of Delta tables in a value, in the order in which ``map_tables`` meets them."""
    found: list[str] = []

    def noted(name: str) -> str:
        found.append(name)
        return name

    map_tables(value, noted)
    return found


def _rebuilt(value: Any, changed: Callable[[str, Any], Any]) -> Any:
    """The value rebuilt from its parts, each replaced by ``changed(field name, part)``; the name is "" outside of fields."""
    if is_statement_value(value):
        parts = {field.name: changed(field.name, getattr(value, field.name)) for field in fields(value)}
        return TYPES[value.type_name](**parts)
    if isinstance(value, Mapping):
        return {key: changed("", item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return tuple(changed("", item) for item in value)
    return value


def _encode(value: Any, *, with_defaults: bool) -> Any:
    if is_statement_value(value):
        require_rendered(value)
        names = [field.name for field in fields(value) if with_defaults or not _is_default(value, field)]
        return {
            TYPE_KEY: value.type_name,
            **{name: _encode(getattr(value, name), with_defaults=with_defaults) for name in names},
        }
    if isinstance(value, Mapping):
        if TYPE_KEY in value or not all(isinstance(key, str) for key in value):
            raise InvalidStatementError(
                statement="mapping", detail=f"keys must be strings other than {TYPE_KEY}: {dict(value)!r}"
            )
        return {key: _encode(item, with_defaults=with_defaults) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item, with_defaults=with_defaults) for item in value]
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise InvalidStatementError(statement=type(value).__name__, detail=f"{value!r} has no JSON form")


def _is_default(value: Any, field: Field[Any]) -> bool:
    if not field.compare:
        return True
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return default is not MISSING and bool(getattr(value, field.name) == default)


def _decode(document: Any) -> Any:
    if isinstance(document, list):
        return tuple(_decode(item) for item in document)
    if not isinstance(document, Mapping):
        return document
    if TYPE_KEY not in document:
        return {key: _decode(item) for key, item in document.items()}
    name = document[TYPE_KEY]
    if not isinstance(name, str) or name not in TYPES:
        raise InvalidStatementError(statement=str(name), detail=f"unknown type; expected one of {', '.join(TYPES)}")
    values = {key: _decode(item) for key, item in document.items() if key != TYPE_KEY}
    try:
        value = TYPES[name](**values)
    except TypeError as error:
        raise InvalidStatementError(statement=name, detail=str(error)) from error
    require_rendered(value)
    return value
