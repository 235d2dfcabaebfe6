"""Parses SQL text in Spark's dialect to predicates, with sqlglot.

sqlglot is not an analyzer. Whatever is not one of the shapes of ``expression``, with types that certainly compare as in Spark,
becomes ``Opaque``: never wrong, only undecided. Syntax that sqlglot does not support, and unknown column names, are errors,
even if Spark may understand them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from airflow_delta.core.errors import AmbiguousColumnError, InvalidPredicateError
from airflow_delta.core.predicate.expression import (
    FALSE,
    TRUE,
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Opaque,
    Operator,
    Or,
    StartsWith,
)
from airflow_delta.core.predicate.literals import ESCAPED, Node, among, beside, written_literal
from airflow_delta.core.predicate.syntax import UNPARSABLE, may_lack_plus, parsed, tokens_of
from airflow_delta.core.schema.char_columns import has_char
from airflow_delta.core.schema.collations import has_collation
from airflow_delta.core.schema.data_types import BOOLEAN, INTEGER, LONG, STRING, StructField, StructType

_OPERATORS: dict[type[Any], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_FOLDABLE = (BOOLEAN, INTEGER, LONG, STRING)
_MIRRORED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SHAPES: tuple[type[Any], ...] = (*_OPERATORS, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.StartsWith)
_PARTS = {"this", "expression", "expressions", "low", "high"}
"""The parts of a shape that are read; if another version of sqlglot adds one, the shape becomes opaque, not wrong."""

_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")
"""sqlglot's message for a comparison without a right-hand side."""


def parse_predicate(sql: str, schema: StructType, table: str, *, time_zone: str = "UTC") -> Expression:
    """The predicate in ``sql`` on rows of ``schema``.

    Args:
        sql: A condition in Spark SQL.
        schema: The table's schema; names are resolved ignoring case.
        table: URI of the table, for errors.
        time_zone: The session's time zone, as Spark names it, for timestamps written without one.

    Raises:
        InvalidPredicateError: The text is not a condition, or names columns that the table does not have.
    """
    try:
        tree = parsed(sql, exp.Condition)
        if "\\" in sql:
            _mark_escaped(tree, sql)
        parser = _Parser(sql, schema, table, time_zone)
        return parser.undecided(tree) if may_lack_plus(tree, sql) else parser.predicate(tree)
    except RecursionError as error:
        raise InvalidPredicateError(table=table, predicate=sql, detail="it is nested too deeply") from error
    except UNPARSABLE as error:
        cause = error.__cause__ or error  # more precise than "Failed to parse into", which has no position
        detail = _MISSING.sub(r"an operand of \1 is missing", str(cause).split("\n", 1)[0]).rstrip(".")
        raise InvalidPredicateError(
            table=table, predicate=sql, detail=f"it is not a single SQL condition ({detail})"
        ) from error


def _mark_escaped(tree: Node, sql: str) -> None:
    """Mark the strings that are written with a backslash, as the tree only has their value according to sqlglot."""
    escaped = {token.text for token in tokens_of(sql) if "\\" in sql[token.start : token.end + 1]}
    for literal in tree.find_all(exp.Literal):
        if literal.this in escaped:
            literal.meta[ESCAPED] = True


@dataclass(frozen=True, slots=True)
class _Parser:
    """A text, and what its names refer to."""

    sql: str
    schema: StructType
    table: str
    time_zone: str

    def undecided(self, node: Node) -> Opaque:
        """The whole text as opaque; the syntax tree only provides the columns."""
        return replace(self._opaque(node), text=self.sql)

    def predicate(self, node: Node) -> Expression:
        """The predicate of a syntax tree."""
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.And():
                return And(tuple(self.predicate(operand) for operand in node.flatten()))
            case exp.Or():
                return Or(tuple(self.predicate(operand) for operand in node.flatten()))
            case exp.Not():
                return Not(self.predicate(node.this))
            case exp.Boolean() | exp.Null():
                return Literal(None if isinstance(node, exp.Null) else bool(node.this))
            case exp.Column() | exp.Dot():
                return self._boolean_column(node)
            case exp.Literal():
                raise self._error("it is not a single SQL condition")
            case _:
                negated = bool(node.args.get("negate"))
                shaped = self._shape(node, {name for name, part in node.args.items() if part and name != "negate"})
                return self._opaque(node) if shaped is None else Not(shaped) if negated else shaped

    def _shape(self, node: Node, parts: set[str]) -> Expression | None:
        """The predicate, if it is one of the known shapes; else None."""
        if not isinstance(node, _SHAPES) or not parts <= _PARTS:
            return None
        left, right = node.args["this"], node.args.get("expression")
        match node:
            case exp.NullSafeNEQ():
                equal = self._comparison("<=>", left, right)
                return None if equal is None else Not(equal)
            case exp.Between():
                low = self._comparison(">=", left, node.args["low"])
                high = self._comparison("<=", left, node.args["high"])
                return None if low is None or high is None else And((low, high))
            case exp.Is():
                return self._is(node)
            case exp.In():
                return self._in(left, node.expressions)
            case exp.Like() | exp.StartsWith():
                return self._prefix(node)
            case _:
                return self._comparison(_OPERATORS[type(node)], left, right)

    def _comparison(self, operator: Operator, left: Node, right: Node) -> Expression | None:
        first, literal = written_literal(left), written_literal(right)
        if first is not None:
            mirrored = _MIRRORED.get(operator, operator)
            return self._comparison(mirrored, right, left) if literal is None else _folded(operator, first, literal)
        found = self._find(left)
        if literal is None or found is None:
            return None
        column, field = found
        if literal.value is None:
            return IsNull(column) if operator == "<=>" else Literal(None)
        exact = beside(literal, field.type, self.time_zone) if self._compares_bytes(column, field) else None
        return None if exact is None else Comparison(operator, column, exact)

    def _is(self, node: Node) -> Expression | None:
        if not isinstance(node.expression, exp.Null):
            return self._comparison("<=>", node.this, node.expression) if isinstance(node.expression, exp.Boolean) else None
        found = self._find(node.this)
        return None if found is None else IsNull(found[0])

    def _in(self, left: Node, nodes: Iterable[Node]) -> Expression | None:
        found = self._find(left)
        literals = [written_literal(node) for node in nodes]
        if found is None or not literals or not self._compares_bytes(*found):
            return None
        column, field = found
        known = [literal for literal in literals if literal is not None]
        values = among(known, field.type, self.time_zone) if len(known) == len(literals) else None
        return None if values is None else In(column, tuple(dict.fromkeys(values)))

    def _prefix(self, node: Node) -> Expression | None:
        found, pattern = self._find(node.this), written_literal(node.expression)
        if found is None or found[1].type != STRING or not self._compares_bytes(*found):
            return None
        if pattern is None or pattern.type != STRING:
            return None
        if isinstance(node, exp.StartsWith):
            return StartsWith(found[0], pattern.value)
        prefix = pattern.value.removesuffix("%")
        if "%" in prefix or "_" in prefix:
            return None
        return StartsWith(found[0], prefix) if prefix != pattern.value else Comparison("=", found[0], pattern)

    def _boolean_column(self, node: Node) -> Expression:
        found = self._find(node)
        if found is None:
            return self._opaque(node)
        column, field = found
        if field.type != BOOLEAN:
            raise self._error(f"the column {field.name!r} is {field.type}, not boolean")
        return Comparison("=", column, TRUE)

    def _opaque(self, node: Node) -> Opaque:
        if node.find(exp.Query):
            raise self._error("it has a subquery")
        if not isinstance(node, exp.Condition):
            raise self._error("it is not a single SQL condition")
        columns = (self._resolved([part.name for part in column.parts])[0] for column in node.find_all(exp.Column))
        return Opaque(node.sql(dialect="spark"), tuple(dict.fromkeys(columns)))

    def _find(self, node: Node) -> tuple[Column, StructField] | None:
        """The column that a name refers to; None if the tree is not a name."""
        if isinstance(node, exp.Paren):
            return self._find(node.this)
        if not isinstance(node, exp.Column | exp.Dot) or any(not isinstance(part, exp.Identifier) for part in node.parts):
            return None
        return self._resolved([part.name for part in node.parts])

    def _resolved(self, names: list[str]) -> tuple[Column, StructField]:
        fields: list[StructField] = []
        scope: object = self.schema
        for name in names:
            try:
                field = scope.find(name) if isinstance(scope, StructType) else None
            except AmbiguousColumnError as error:
                raise self._error(error.claim()) from error
            if field is None:
                text = ".".join(names)
                raise self._error(f"the column {text!r} does not exist; the columns are {', '.join(self.schema.names)}")
            fields.append(field)
            scope = field.type
        return Column(fields[0].name, tuple(field.name for field in fields[1:])), fields[-1]

    def _compares_bytes(self, column: Column, field: StructField) -> bool:
        """Whether equal strings have equal bytes, also in statistics: not with a collation, and not if readers pad (CHAR)."""
        outermost = self.schema.find(column.name) or field  # has the declared type of everything inside
        return not has_collation(field) and not (field.type == STRING and has_char(outermost))

    def _error(self, detail: str) -> InvalidPredicateError:
        return InvalidPredicateError(table=self.table, predicate=self.sql, detail=detail)


def _folded(operator: Operator, left: Literal, right: Literal) -> Expression | None:
    """A comparison of two constants of one type, such as ``1 = 1``, which Python compares as Spark does."""
    if left.type != right.type or left.type not in _FOLDABLE or operator not in ("=", "!=", "<=>"):
        return None
    return TRUE if (left.value == right.value) == (operator != "!=") else FALSE
