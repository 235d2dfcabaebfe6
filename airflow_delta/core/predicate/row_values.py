"""Evaluates a predicate on each row, with Spark's three-valued logic and order, by Arrow functions.

The same functions work on arrays (result: an array) and on Arrow expressions (result: an Arrow expression).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import InvalidPredicateError
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
    number_of_leaves,
)
from airflow_delta.core.schema.arrow_conversion import arrow_type
from airflow_delta.core.schema.data_types import DOUBLE, FLOAT

_MAX_LEAVES = 2_000  # Arrow normalizes filters recursively, and the process crashes at 10,000
_NULL = pa.nulls(1, pa.bool_())[0]
_KERNELS = {"=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


def to_arrow_expression(expression: Expression, *, table: str = "the table") -> pc.Expression:
    """The predicate as an Arrow filter on the table's Arrow schema; selects exactly the rows that Spark selects.

    Args:
        expression: The predicate.
        table: URI of the table, for the error.

    Raises:
        InvalidPredicateError: A part of it is opaque, or it has more leaves than Arrow can process.
    """
    if number_of_leaves(expression) > _MAX_LEAVES:
        detail = f"it has more than {_MAX_LEAVES} parts; IN takes any number of values"
        raise InvalidPredicateError(table=table, predicate=f"{expression!s:.80}...", detail=detail)
    value = row_values(expression, lambda column: pc.field(*column.path), table=table)
    return value if isinstance(value, pc.Expression) else pc.scalar(value)


def row_values(expression: Expression, operand: Callable[[Column], Any], *, table: str = "the table") -> Any:
    """The predicate's value (TRUE, FALSE, NULL) for each row.

    Args:
        expression: The predicate.
        operand: Returns a column's values, as an array or an Arrow expression.
        table: URI of the table, for the error.

    Returns:
        An array or an Arrow expression, like the operands; a scalar if the value depends on no column.

    Raises:
        InvalidPredicateError: A part of it is opaque.
    """
    match expression:
        case And(operands):
            return _reduced(pc.and_kleene, [row_values(part, operand, table=table) for part in operands], empty=True)
        case Or(operands):
            return _reduced(pc.or_kleene, [row_values(part, operand, table=table) for part in operands], empty=False)
        case Not(negated):
            return pc.invert(row_values(negated, operand, table=table))
        case Literal(value):
            return pa.scalar(value, pa.bool_())
        case IsNull(column):
            return pc.is_null(operand(column))
        case StartsWith(column, prefix):
            return pc.starts_with(operand(column), pattern=prefix)
        case In(column, literals):
            return _in(operand(column), literals)
        case Comparison(operator, column, literal):
            return _compared(operator, operand(column), literal)
        case Opaque(text):
            raise InvalidPredicateError(table=table, predicate=text, detail="only Spark can decide it for a row")


def arrow_scalar(literal: Literal) -> pa.Scalar:
    """The constant as a scalar of its type."""
    return pa.scalar(literal.value, arrow_type(literal.type))


def _reduced(kernel: Callable[[Any, Any], Any], values: list[Any], *, empty: bool) -> Any:
    # An Arrow function returns an expression only if its first argument is one, so constants go last.
    values.sort(key=lambda value: isinstance(value, pa.Scalar))
    while len(values) > 1:  # combined in pairs, because Arrow walks the tree recursively
        values = [*map(kernel, values[::2], values[1::2]), *values[len(values) & ~1 :]]
    return values[0] if values else pa.scalar(empty)


def _in(values: Any, literals: tuple[Literal, ...]) -> Any:
    known = [literal for literal in literals if literal.value is not None]
    miss = _NULL if len(known) < len(literals) else pa.scalar(False)
    if not known:
        return pc.if_else(pc.is_valid(values), miss, _NULL)
    items = [literal.value for literal in known]
    if known[0].type in (FLOAT, DOUBLE) and 0.0 in items:
        items += [0.0, -0.0]  # equal, but not to a hash table
    hit = pc.is_in(values, value_set=pa.array(items, arrow_type(known[0].type)))
    return pc.if_else(pc.is_valid(values), pc.if_else(hit, pa.scalar(True), miss), _NULL)


def _compared(operator: str, values: Any, literal: Literal) -> Any:
    if operator == "<=>":
        if literal.value is None:
            return pc.is_null(values)
        return pc.coalesce(_compared("=", values, literal), pa.scalar(False))
    if literal.type not in (FLOAT, DOUBLE):
        return _KERNELS[operator](values, arrow_scalar(literal))
    return _compared_floats(operator, values, literal)


def _compared_floats(operator: str, values: Any, literal: Literal) -> Any:
    """Compares with NaN equal to itself and above every number, unlike Arrow's comparison."""
    if not math.isnan(literal.value):
        value = _KERNELS[operator](values, arrow_scalar(literal))
        return pc.or_kleene(value, pc.is_nan(values)) if operator in (">", ">=") else value
    match operator:
        case "=" | ">=":
            return pc.is_nan(values)
        case "!=" | "<":
            return pc.invert(pc.is_nan(values))
        case _:  # "<=" holds for every number, ">" for none
            return pc.if_else(pc.is_valid(values), pa.scalar(operator == "<="), _NULL)
