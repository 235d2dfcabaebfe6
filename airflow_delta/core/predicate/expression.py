"""Predicates as values: a closed list of shapes, and ``Opaque`` for everything else.

They have Spark SQL's meaning: three-valued, and with NaN equal to itself and above every other number. A row is selected if the
predicate is TRUE; not if it is FALSE or NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias
from typing import Literal as OneOf

from airflow_delta.core.schema.data_types import BOOLEAN, DataType, StructField

Operator: TypeAlias = OneOf["=", "!=", "<", "<=", ">", ">=", "<=>"]

NEGATED: dict[str, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The negation of each operator: TRUE where the other is FALSE; both are NULL for NULL."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its name in the schema, or a nested field of a struct column.

    Attributes:
        members: Names of the nested fields, outermost first; empty for the column itself.
    """

    name: str
    members: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """The column's name, followed by ``members``."""
        return (self.name, *self.members)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; a boolean one is a predicate by itself (TRUE, FALSE, NULL).

    Attributes:
        value: As from Arrow's ``as_py``; instants have a zone; None is NULL.
    """

    value: Any
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared to a constant that is not NULL (except with ``<=>``)."""

    operator: Operator
    column: Column
    literal: Literal


@dataclass(frozen=True, slots=True)
class In:
    """A column compared to constants of its type; if one of them is NULL, the result is NULL instead of FALSE."""

    column: Column
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the column is NULL; the result is never NULL."""

    column: Column


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A string column compared to a prefix: ``LIKE 'prefix%'``."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class And:
    """TRUE if all operands are; TRUE without operands."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE if one operand is; FALSE without operands."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """TRUE if the operand is FALSE; NULL stays NULL."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Opaque:
    """A predicate that only Spark can evaluate: here it may be anything for any row.

    Attributes:
        text: The SQL.
        columns: The columns that it refers to.
    """

    text: str
    columns: tuple[Column, ...] = ()


Leaf: TypeAlias = Comparison | In | IsNull | StartsWith
Expression: TypeAlias = Leaf | And | Or | Not | Opaque | Literal

TRUE, FALSE = Literal(True), Literal(False)


# -- building


def conjunction(operands: Iterable[Expression]) -> Expression:
    """AND of the operands; TRUE without operands."""
    return _joined(operands, And, neutral=TRUE, absorbing=FALSE)


def disjunction(operands: Iterable[Expression]) -> Expression:
    """OR of the operands; FALSE without operands."""
    return _joined(operands, Or, neutral=FALSE, absorbing=TRUE)


def range_predicate(field: StructField, low: Any, high: Any) -> Expression:
    """Whether a top-level column lies between two values, both included: the values that matching rows can have.

    Args:
        field: The column.
        low: Minimum, as from Arrow's ``as_py``.
        high: Maximum, likewise. Both None: there are no values (no rows, or only NULLs, which match nothing), so the result is
            FALSE. One None leaves that side open.
    """
    if low is None and high is None:
        return FALSE
    column = Column(field.name)
    bounds: list[tuple[Operator, Any]] = [(">=", low), ("<=", high)]
    return conjunction(Comparison(op, column, Literal(value, field.type)) for op, value in bounds if value is not None)


def _joined(operands: Iterable[Expression], kind: type[And | Or], *, neutral: Literal, absorbing: Literal) -> Expression:
    flat: list[Expression] = []
    for operand in operands:
        if operand == absorbing:
            return absorbing
        if operand != neutral:
            flat += operand.operands if isinstance(operand, kind) else (operand,)
    unique = tuple(dict.fromkeys(flat))
    return neutral if not unique else unique[0] if len(unique) == 1 else kind(unique)


# -- queries


def decidable_columns(expression: Expression) -> frozenset[Column]:
    """The columns that statistics can decide: those of leaves that are not opaque, with nested paths."""
    return frozenset(leaf.column for leaf in _leaves(expression) if not isinstance(leaf, Opaque | Literal))


def referenced_columns(expression: Expression) -> frozenset[str]:
    """Names of the table's columns that the predicate depends on, including its opaque parts."""
    opaque = frozenset(column.name for leaf in _leaves(expression) if isinstance(leaf, Opaque) for column in leaf.columns)
    return opaque | {column.name for column in decidable_columns(expression)}


def is_exact(expression: Expression) -> bool:
    """Whether the predicate has no opaque part, so that it can be evaluated on each row here."""
    return not any(isinstance(leaf, Opaque) for leaf in _leaves(expression))


def number_of_leaves(expression: Expression) -> int:
    """Number of leaves, such as comparisons."""
    return sum(1 for _ in _leaves(expression))


def is_partition_only(expression: Expression, partition_columns: Iterable[str]) -> bool:
    """Whether only partition columns decide it, so that it selects whole files (also if opaque, once Spark decided it)."""
    return referenced_columns(expression) <= set(partition_columns)


def _leaves(expression: Expression) -> Iterator[Leaf | Opaque | Literal]:
    match expression:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _leaves(operand)
        case Not(operand):
            yield from _leaves(operand)
        case _:
            yield expression


# -- rewriting


def partition_part(expression: Expression, partition_columns: Iterable[str]) -> Expression:
    """The strongest predicate on partition columns that every selected row satisfies; other leaves become TRUE."""
    columns = set(partition_columns)
    return _weakened(with_negation_at_leaves(expression), lambda leaf: is_partition_only(leaf, columns))


def exact_part(expression: Expression) -> Expression:
    """The strongest predicate without opaque parts that every selected row satisfies; opaque leaves become TRUE."""
    return _weakened(with_negation_at_leaves(expression), is_exact)


def with_negation_at_leaves(expression: Expression) -> Expression:
    """An equivalent predicate with ``Not`` only directly before opaque leaves, and leaves without a negation of their own."""
    match expression:
        case And(operands):
            return conjunction(map(with_negation_at_leaves, operands))
        case Or(operands):
            return disjunction(map(with_negation_at_leaves, operands))
        case Not(operand):
            return _negated(operand)
        case _:
            return expression


def _negated(expression: Expression) -> Expression:
    match expression:
        case And(operands):
            return disjunction(map(_negated, operands))
        case Or(operands):
            return conjunction(map(_negated, operands))
        case Not(operand):
            return with_negation_at_leaves(operand)
        case Literal(value):
            return Literal(None if value is None else not value)
        case Comparison(operator, column, literal) if operator in NEGATED:
            return Comparison(NEGATED[operator], column, literal)
        case _:
            return Not(expression)


def _weakened(expression: Expression, stays: Callable[[Expression], bool]) -> Expression:
    match expression:
        case And(operands):
            return conjunction(_weakened(operand, stays) for operand in operands)
        case Or(operands):
            return disjunction(_weakened(operand, stays) for operand in operands)
        case _:
            return expression if stays(expression) else TRUE
