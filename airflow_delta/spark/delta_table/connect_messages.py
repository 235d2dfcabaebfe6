"""Reads columns and DataFrames of Spark Connect from their protobuf messages to the server.

They contain what the plan of a classic session shows. Spark: ``expressions.proto`` and ``relations.proto`` of
``spark.connect``.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame

from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.schema_conversion import quoted

_OPERATORS = {"==": "=", **{sign: sign for sign in ("<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^")}}
_WORDS = {"and": "AND", "or": "OR", "like": "LIKE", "rlike": "RLIKE", "ilike": "ILIKE"}
_RELATION = "spark.connect.Relation"
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - literals count from it, in UTC or in no zone


def column_text(column: Column, rows: DataFrame, sides: Mapping[int, str]) -> str | None:
    """A column as SQL, for comparison with it; None if it contains something without SQL text, such as a Python function.

    Args:
        column: The user's column.
        rows: Rows of the session.
        sides: By plan id of a DataFrame, the qualifier for columns taken from it.
    """
    return _Writer(sides).text(column.to_plan(rows.sparkSession.client))


def is_literal(value: Column | str) -> bool:
    """Whether it is a literal of Spark Connect, which prints strings without quotes."""
    return type(getattr(value, "_expr", None)).__name__ == "LiteralExpression"


def frame_numbers(rows: DataFrame) -> set[int]:
    """The plan ids of the DataFrames that the rows are made of, which columns taken from them refer to."""
    return {relation.common.plan_id for relation in _relations(_message(rows), within_aliases=True)}


def qualifiers(rows: DataFrame) -> Iterator[tuple[str, ...]]:
    """Possible qualifiers of column names: aliases, and table names; at worst more than Spark would accept."""
    for relation in _relations(_message(rows), within_aliases=False):
        match relation.WhichOneof("rel_type"):
            case "subquery_alias":
                yield (name_key(relation.subquery_alias.alias),)
            case "read" if relation.read.HasField("named_table"):
                name = relation.read.named_table.unparsed_identifier
                yield tuple(name_key(part.strip("`")) for part in name.split("."))


def _message(rows: DataFrame) -> Any:
    return rows._plan.plan(rows.sparkSession.client)  # noqa: SLF001 - PySpark offers no other way


def _relations(relation: Any, *, within_aliases: bool) -> Iterator[Any]:
    """The relation and all those that it is made of."""
    yield relation
    kind = relation.WhichOneof("rel_type")
    if kind is None or (kind == "subquery_alias" and not within_aliases):
        return
    for field, value in getattr(relation, kind).ListFields():
        if field.message_type is not None and field.message_type.full_name == _RELATION:
            for child in [value] if hasattr(value, "WhichOneof") else value:
                yield from _relations(child, within_aliases=within_aliases)


class _Unwritable(Exception):  # noqa: N818 - ends the writing of one text
    """An expression has no SQL text."""


class _Writer:
    """Renders messages as SQL."""

    def __init__(self, sides: Mapping[int, str]) -> None:
        self._sides = sides

    def text(self, message: Any) -> str | None:
        try:
            return self._written(message)
        except _Unwritable:
            return None

    def _written(self, message: Any) -> str:
        kind = message.WhichOneof("expr_type")
        value = getattr(message, kind)
        match kind:
            case "literal":
                return _literal(value)
            case "unresolved_attribute" if not value.is_metadata_column:
                side = self._sides.get(value.plan_id) if value.HasField("plan_id") else None
                return f"{side}.{value.unparsed_identifier}" if side else str(value.unparsed_identifier)
            case "expression_string":
                return f"({value.expression}\n)"
            case "alias":
                return self._written(value.expr)
            case "cast":
                return self._cast(value)
            case "unresolved_function" if value.function_name == "struct":
                return self._call(value.function_name, [self._named(argument) for argument in value.arguments])
            case "unresolved_function" if not value.is_distinct:
                return self._call(value.function_name, [self._written(argument) for argument in value.arguments])
            case "call_function":
                return self._call(value.function_name, [self._written(argument) for argument in value.arguments])
            case "unresolved_extract_value":
                return self._member(value)
            case _:
                raise _Unwritable

    def _named(self, message: Any) -> str:
        """A field of a struct, with its name."""
        names = [*message.alias.name] if message.WhichOneof("expr_type") == "alias" else []
        return f"{self._written(message)} AS {quoted(names[0])}" if len(names) == 1 else self._written(message)

    def _call(self, name: str, arguments: list[str]) -> str:
        match name, arguments:
            case _, [left, right] if name in _OPERATORS or name in _WORDS:
                return f"({left} {_OPERATORS.get(name) or _WORDS[name]} {right})"
            case "not", [operand]:
                return f"(NOT {operand})"
            case "negative", [operand]:
                return f"(- {operand})"
            case "in", [operand, *values]:
                return f"({operand} IN ({', '.join(values)}))"
            case "when", _:
                pairs = zip(arguments[::2], arguments[1::2], strict=False)
                branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
                return f"CASE {branches}{f' ELSE {arguments[-1]}' if len(arguments) % 2 else ''} END"
            case _:
                return f"{name if name.isidentifier() else quoted(name)}({', '.join(arguments)})"

    def _cast(self, cast: Any) -> str:
        # Imported late: pyspark.sql.connect may not be installed without Spark Connect.
        from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type  # noqa: PLC0415

        wanted = cast.type_str or proto_schema_to_pyspark_data_type(cast.type).simpleString()
        is_try = "TRY" in type(cast).EvalMode.Name(cast.eval_mode)
        return f"{'TRY_CAST' if is_try else 'CAST'}({self._written(cast.expr)} AS {wanted})"

    def _member(self, member: Any) -> str:
        of = self._written(member.child)
        literal = member.extraction.literal
        if literal.WhichOneof("literal_type") == "string" and literal.string:
            return f"{of}.{quoted(literal.string)}"
        return f"{of}[{self._written(member.extraction)}]"


def _literal(literal: Any) -> str:
    kind = literal.WhichOneof("literal_type")
    value = getattr(literal, kind)
    is_infinite = kind in {"float", "double"} and not math.isfinite(value)
    if kind not in _LITERALS or is_infinite:
        raise _Unwritable
    return _LITERALS[kind](value)


def _time(microseconds: int) -> str:
    return str(_EPOCH + dt.timedelta(microseconds=microseconds))


def _string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_LITERALS: Mapping[str, Callable[[Any], str]] = {
    "null": lambda _: "NULL",
    "boolean": lambda value: str(value).upper(),
    "byte": lambda value: f"{value}Y",
    "short": lambda value: f"{value}S",
    "integer": str,
    "long": lambda value: f"{value}L",
    "float": lambda value: f"{value!r}F",
    "double": lambda value: f"{value!r}D",
    "decimal": lambda value: f"{value.value}BD",
    "string": _string,
    "binary": lambda value: f"X'{value.hex()}'",
    "date": lambda days: f"DATE '{(_EPOCH + dt.timedelta(days=days)).date()}'",
    "timestamp": lambda microseconds: f"TIMESTAMP_LTZ '{_time(microseconds)}+00:00'",
    "timestamp_ntz": lambda microseconds: f"TIMESTAMP_NTZ '{_time(microseconds)}'",
}
"""Renderers by kind of literal."""
