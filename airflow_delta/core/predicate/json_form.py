"""Converts predicates to JSON and back, for documents that outlive the process: a closed list of shapes, constants as text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.predicate.expression import (
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Opaque,
    Or,
    StartsWith,
)
from airflow_delta.core.predicate.row_values import arrow_scalar
from airflow_delta.core.schema import StructField, StructType, parse_schema, schema_json

_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "<=>")
_TEXTS: Mapping[type, tuple[str, Callable[[Any], str]]] = {
    type(None): ("null", lambda _: ""),
    bool: ("bool", lambda value: "true" if value else ""),
    int: ("int", str),
    float: ("float", repr),
    str: ("text", str),
    bytes: ("bytes", bytes.hex),
    Decimal: ("decimal", str),
    dt.date: ("date", dt.date.isoformat),
    dt.datetime: ("time", dt.datetime.isoformat),
}
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "null": lambda _: None,
    "bool": bool,
    "int": int,
    "float": float,
    "text": str,
    "bytes": bytes.fromhex,
    "decimal": Decimal,
    "date": dt.date.fromisoformat,
    "time": dt.datetime.fromisoformat,
}


def predicate_to_json(expression: Expression) -> dict[str, Any]:
    """The predicate as a JSON object.

    Raises:
        KeyError: It contains a constant of a type without a text form here.
    """
    match expression:
        case And(operands):
            return {"and": list(map(predicate_to_json, operands))}
        case Or(operands):
            return {"or": list(map(predicate_to_json, operands))}
        case Not(operand):
            return {"not": predicate_to_json(operand)}
        case Comparison(operator, column, literal):
            return {"compare": operator, "column": list(column.path), "literal": _literal_to_json(literal)}
        case In(column, values):
            return {"in": list(map(_literal_to_json, values)), "column": list(column.path)}
        case IsNull(column):
            return {"is_null": list(column.path)}
        case StartsWith(column, prefix):
            return {"prefix": prefix, "column": list(column.path)}
        case Opaque(text, columns):
            return {"sql": text, "columns": [list(column.path) for column in columns]}
        case Literal():
            return {"literal": _literal_to_json(expression)}


def predicate_from_json(document: Any) -> Expression:
    """The predicate that ``predicate_to_json`` wrote.

    Raises:
        ValueError: The value is not such a document.
    """
    try:
        return _predicate(document)
    except (DeltaError, KeyError, TypeError, AttributeError, ArithmeticError, pa.ArrowException) as error:
        raise ValueError(f"no predicate: {type(error).__name__}: {error}") from error


def _predicate(document: dict[str, Any]) -> Expression:
    match document:
        case {"and": list(operands)}:
            return And(tuple(map(_predicate, operands)))
        case {"or": list(operands)}:
            return Or(tuple(map(_predicate, operands)))
        case {"not": operand}:
            return Not(_predicate(operand))
        case {"compare": operator, "column": path, "literal": literal} if operator in _OPERATORS:
            return Comparison(operator, _column(path), _literal(literal))
        case {"in": list(values), "column": path}:
            return In(_column(path), tuple(map(_literal, values)))
        case {"is_null": path}:
            return IsNull(_column(path))
        case {"prefix": str(prefix), "column": path}:
            return StartsWith(_column(path), prefix)
        case {"sql": str(text), "columns": list(columns)}:
            return Opaque(text, tuple(map(_column, columns)))
        case {"literal": literal}:
            return _literal(literal)
    raise ValueError(f"no predicate: {document!r:.80}")


def _column(path: Any) -> Column:
    name, *members = path
    if not all(isinstance(part, str) for part in path):
        raise TypeError(f"the column {path!r:.80}")
    return Column(name, tuple(members))


def _literal_to_json(literal: Literal) -> dict[str, str]:
    kind, text = _TEXTS[type(literal.value)]
    return {"type": schema_json(StructType((StructField("value", literal.type),))), kind: text(literal.value)}


def _literal(document: dict[str, str]) -> Literal:
    kinds = document.keys() - {"type"}
    [kind] = kinds
    literal = Literal(_VALUES[kind](document[kind]), parse_schema(document["type"]).fields[0].type)
    if literal.value is not None:
        arrow_scalar(literal)
    return literal
