"""Predicates as values: a closed list of shapes, and ``Opaque`` for everything else.

Their meaning is Spark SQL's: three-valued, and with NaN equal to itself and above every other number. A row is selected when
the predicate is TRUE for it; FALSE and NULL do not select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias
from typing import Literal as OneOf

from airflow_delta.core.schema.data_types import BOOLEAN, DataType, StructField

Operator: TypeAlias = OneOf["=", "!=", "<", "<=", ">", ">=", "<=>"]

NEGATED: dict[str, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The operator that is TRUE where this one is FALSE; both are NULL for NULL."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column by the name the schema gives it, or what lies inside a struct column.

    Attributes:
        members: Names of the nested fields, outermost first; empty for the column itself.
    """

    name: str
    members: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """The name and the members."""
        return (self.name, *self.members)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; one of type boolean is a predicate of its own (TRUE, FALSE, NULL).

    Attributes:
        value: As Arrow's ``as_py`` gives it, instants with a zone; None is NULL.
    """

    value: Any
    type: DataType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a constant that is not NULL (except with ``<=>``)."""

    operator: Operator
    column: Column
    literal: Literal


@dataclass(frozen=True, slots=True)
class In:
    """A column against constants of the column's type; NULL among them makes every miss NULL."""

    column: Column
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the column is NULL; never NULL itself."""

    column: Column


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A string column against its first characters: ``LIKE 'prefix%'``."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class And:
    """TRUE when all are; none at all is TRUE."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE when one is; none at all is FALSE."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """TRUE when the operand is FALSE; NULL stays NULL."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Opaque:
    """A predicate that only Spark can decide: it may be anything for any row.

    Attributes:
        text: The SQL.
        columns: What it refers to.
    """

    text: str
    columns: tuple[Column, ...] = ()


Leaf: TypeAlias = Comparison | In | IsNull | StartsWith
Expression: TypeAlias = Leaf | And | Or | Not | Opaque | Literal

TRUE, FALSE = Literal(True), Literal(False)


# -- building


def conjunction(operands: Iterable[Expression]) -> Expression:
    """All of them; TRUE for none."""
    return _joined(operands, And, neutral=TRUE, absorbing=FALSE)


def disjunction(operands: Iterable[Expression]) -> Expression:
    """At least one of them; FALSE for none."""
    return _joined(operands, Or, neutral=FALSE, absorbing=TRUE)


def range_predicate(field: StructField, low: Any, high: Any) -> Expression:
    """Whether a top-level column lies between two values, both included: what rows with such keys can match.

    Args:
        field: The column.
        low: Least value, as Arrow's ``as_py`` gives it.
        high: Greatest value; both None when there is no value at all (no rows, or NULLs only, which match nothing: FALSE).
            One None leaves that side open.
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
    """The columns that statistics can decide: those of leaves that are not opaque, with their nested paths."""
    return frozenset(leaf.column for leaf in _leaves(expression) if not isinstance(leaf, Opaque | Literal))


def referenced_columns(expression: Expression) -> frozenset[str]:
    """The names of the table's columns that decide the predicate, opaque parts included."""
    opaque = frozenset(column.name for leaf in _leaves(expression) if isinstance(leaf, Opaque) for column in leaf.columns)
    return opaque | {column.name for column in decidable_columns(expression)}


def is_exact(expression: Expression) -> bool:
    """Whether nothing in it is opaque, so that it can be decided for each row here."""
    return not any(isinstance(leaf, Opaque) for leaf in _leaves(expression))


def number_of_leaves(expression: Expression) -> int:
    """How many comparisons and the like it is made of."""
    return sum(1 for _ in _leaves(expression))


def is_partition_only(expression: Expression, partition_columns: Iterable[str]) -> bool:
    """Whether partition columns alone decide it, so that it selects whole files (an opaque one too, once Spark decided it)."""
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
    """The strongest predicate on partition columns that holds for every selected row: other leaves become TRUE."""
    columns = set(partition_columns)
    return _weakened(with_negation_at_leaves(expression), lambda leaf: is_partition_only(leaf, columns))


def exact_part(expression: Expression) -> Expression:
    """The strongest predicate that holds for every selected row and that is decided here: opaque leaves become TRUE."""
    return _weakened(with_negation_at_leaves(expression), is_exact)


def with_negation_at_leaves(expression: Expression) -> Expression:
    """An equivalent predicate where ``Not`` stands only before a leaf that has no negation of its own, or an opaque one."""
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
