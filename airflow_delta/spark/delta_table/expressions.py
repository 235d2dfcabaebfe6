"""Converts conditions and values, given as SQL text or ``Column``, to the SQL text that statements consist of.

Users choose the names of the two sides of a merge (``events.id = updates.id``); statements call them ``target`` and ``source``.
In a text only these names are replaced. A ``Column`` is rendered as Spark's analyzer shows it. Neither result is trusted: a
text is used only if Spark analyzes it to the same plan as the user's own expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from sqlglot import Token, TokenType

from airflow_delta.core.predicate.syntax import CLOSING, OPENING
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.constraints.column_references import SOURCE, TARGET, tokens_of, without_ambiguity
from airflow_delta.spark.delta_table.connect_messages import column_text, frame_numbers, qualifiers
from airflow_delta.spark.errors import ExpressionNotTextError
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.jvm import Py4JError, active_jvm, analyzed, analyzed_plan, is_connect
from airflow_delta.spark.schema_conversion import from_spark
from airflow_delta.spark.statement.plan_conditions import members

Expression: TypeAlias = str | Column
"""Spark SQL text, or a column made with ``pyspark.sql.functions``."""

Qualifier = tuple[str, ...]

_VALUE = "__value"
_LITERAL_CAST = re.compile(r"CAST\(('(?:[^'\\]|\\.)*'|\d+) AS [A-Z]+\)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Names:
    """The same rows twice: with the names in the user's expressions, and with those in statements.

    Attributes:
        theirs: The rows with the user's aliases.
        ours: The rows named ``target`` and ``source``.
        sides: The side of each of the user's qualifiers.
        ids: The side by Spark's expression id of a column; with Spark Connect, by plan id of a DataFrame.
    """

    theirs: DataFrame
    ours: DataFrame
    sides: Mapping[Qualifier, str]
    ids: Mapping[int, str]

    @classmethod
    def of_target(cls, rows: DataFrame, alias: str | None) -> Names:
        """The names for expressions on a table alone; no row is read."""
        theirs = rows.alias(alias) if alias else rows
        return cls(theirs=theirs, ours=rows.alias(TARGET), sides=_sides(theirs, TARGET), ids=_ids(rows, TARGET))

    @classmethod
    def of_source(cls, rows: DataFrame) -> Names:
        """The names for expressions on the source rows of a merge."""
        return cls(theirs=rows, ours=rows.alias(SOURCE), sides=_sides(rows, SOURCE), ids=_ids(rows, SOURCE))

    def beside(self, other: Names) -> Names:
        """The names for expressions on both."""
        return Names(
            theirs=self.theirs.crossJoin(other.theirs),
            ours=self.ours.crossJoin(other.ours),
            sides={**self.sides, **other.sides},
            ids={**self.ids, **other.ids},
        )


def as_text(expression: Expression, names: Names, *, is_join: bool = False) -> str:
    """The expression as SQL text for a statement.

    Args:
        expression: The user's expression.
        names: What the expression may name.
        is_join: Whether it is the condition of a merge, in which equalities of qualified columns are recognized as keys.

    Raises:
        ExpressionNotTextError: No text certainly has the same meaning.
        AnalysisException: Spark cannot analyze it; the message says why. Likewise ``ParseException``.
    """
    wanted = analyzed(names.theirs.select(_column(expression).alias(_VALUE)))
    for text in _candidates(expression, wanted, names, is_join=is_join):
        found = _selected(names.ours, text)
        if found is not None and found.sameSemantics(wanted):
            return _unambiguous(text, wanted, names)
    if isinstance(expression, str) and not wanted.sameSemantics(names.theirs.select(sql_expression(expression).alias(_VALUE))):
        # The expression differs from itself, as uuid() does in each plan: it cannot be compared, so the user's text is used.
        text = _renamed(expression, names.sides)
        if _selected(names.ours, text) is not None:
            return text
    raise ExpressionNotTextError(expression=expression if isinstance(expression, str) else str(expression))


def _unambiguous(text: str, wanted: DataFrame, names: Names) -> str:
    """The text, with unqualified columns where ``target.x`` could also be a field of a column ``target``, which is refused."""
    if SOURCE in {*names.sides.values(), *names.ids.values()} or TARGET not in map(name_key, names.ours.columns):
        return text
    plain = without_ambiguity(text, from_spark(names.ours.schema))
    found = _selected(names.ours, plain)
    return plain if found is not None and found.sameSemantics(wanted) else text


def _candidates(expression: Expression, wanted: DataFrame, names: Names, *, is_join: bool) -> Iterator[str]:
    """Texts that may have the same meaning; the ones that are easiest to read and to split come first."""
    own = _renamed(expression, names.sides) if isinstance(expression, str) else None
    if own is not None and not is_join:
        yield own
    if own is not None and "." in own:
        yield _unwrapped(own)
    shown = _shown(expression, wanted, names)
    if shown is not None:
        plain = _LITERAL_CAST.sub(r"\1", shown)
        yield from (_unwrapped(plain), _unwrapped(shown), shown)
    if own is not None:
        yield own


def _selected(rows: DataFrame, expression: Expression) -> DataFrame | None:
    """The rows with the expression as their only value; None if it is not valid for them."""
    try:
        return analyzed(rows.select(_column(expression).alias(_VALUE)))
    except (AnalysisException, ParseException):
        return None


def _column(expression: Expression) -> Column:
    return sql_expression(expression) if isinstance(expression, str) else expression


def _shown(expression: Expression, rows: DataFrame, names: Names) -> str | None:
    """The expression as Spark renders it after analysis, with columns qualified by side; with Spark Connect, as unanalyzed.

    Args:
        expression: The user's expression.
        rows: Rows whose only value is the expression.
        names: What the expression may name.
    """
    if is_connect(rows.sparkSession):
        text = None if isinstance(expression, str) else column_text(expression, rows, names.ids)
        return None if text is None else _renamed(text, names.sides)
    try:
        shown = analyzed_plan(rows).projectList().head().child()
        text = str(shown.sql())
        if "struct(" in text:
            _name_members(shown)
            text = str(shown.sql())
    except Py4JError:  # for example an aggregate or a window function
        return None
    return _placed(_renamed(text, names.sides), _unqualified(rows, names.ids))


def _name_members(shown: Any) -> None:
    """Make Spark render structs with field names; its short form ``struct(…)`` omits them."""
    if shown.nodeName() == "CreateNamedStruct":
        shown.unsetTagValue(active_jvm().org.apache.spark.sql.catalyst.analysis.FunctionRegistry.FUNC_ALIAS())
    for child in members(shown.children()):
        _name_members(child)


def _unqualified(rows: DataFrame, ids: Mapping[int, str]) -> list[tuple[str, str]]:
    """Name and side of each column shown without qualifier, in order: those taken from a DataFrame without alias."""
    leaves = analyzed_plan(rows).projectList().head().child().collectLeaves()
    columns = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.nodeName() == "AttributeReference"]
    return [
        (str(column.name()), ids[column.exprId().id()])
        for column in columns
        if column.qualifier().isEmpty() and column.exprId().id() in ids
    ]


def _placed(text: str, columns: list[tuple[str, str]]) -> str:
    """The text with these columns qualified, which occur in this order; comparing plans later shows whether that was right."""
    tokens, pieces, done = tokens_of(text) or [], [], 0
    waiting = iter(columns)
    name, side = next(waiting, ("", ""))
    for position, token in enumerate(tokens):
        is_member = position > 0 and tokens[position - 1].token_type == TokenType.DOT
        is_call = position + 1 < len(tokens) and tokens[position + 1].token_type == TokenType.L_PAREN
        if side and token.token_type != TokenType.STRING and token.text == name and not is_member and not is_call:
            pieces += [text[done : token.start], f"{side}."]
            done = token.start
            name, side = next(waiting, ("", ""))
    return "".join([*pieces, text[done:]])


def _ids(rows: DataFrame, side: str) -> dict[int, str]:
    if is_connect(rows.sparkSession):
        return dict.fromkeys(frame_numbers(rows), side)
    output = analyzed_plan(rows).output()
    return {output.apply(position).exprId().id(): side for position in range(output.size())}


def _sides(rows: DataFrame, side: str) -> dict[Qualifier, str]:
    """Every possible qualifier of a column: ``spark_catalog.default.t``, ``default.t``, ``t``."""
    found = qualifiers(rows) if is_connect(rows.sparkSession) else _analyzed_qualifiers(rows)
    return {qualifier[start:]: side for qualifier in found for start in range(len(qualifier))}


def _analyzed_qualifiers(rows: DataFrame) -> Iterator[Qualifier]:
    output = analyzed_plan(rows).output()
    for position in range(output.size()):
        parts = output.apply(position).qualifier()
        yield tuple(name_key(str(parts.apply(position))) for position in range(parts.size()))


def _renamed(text: str, sides: Mapping[Qualifier, str]) -> str:
    """The text with the user's qualifiers replaced by the statement's names."""
    tokens = tokens_of(text)
    if tokens is None or not sides:
        return text
    pieces, done, position = [], 0, 0
    while position < len(tokens):
        length = _qualifier_at(tokens, position, sides)
        if length:
            first, last = tokens[position], tokens[position + 2 * length - 2]
            side = sides[_parts(tokens, position, length)]
            pieces += [text[done : first.start], side]
            done = last.end + 1
        position += max(1, 2 * length)
    return "".join([*pieces, text[done:]])


def _qualifier_at(tokens: list[Token], position: int, sides: Mapping[Qualifier, str]) -> int:
    """Number of parts of the qualifier that begins at this token; 0 if none begins here."""
    if position and tokens[position - 1].token_type == TokenType.DOT:
        return 0
    for length in sorted({len(side) for side in sides}, reverse=True):
        dots = tokens[position + 1 : position + 2 * length : 2]
        if (
            len(dots) == length
            and all(token.token_type == TokenType.DOT for token in dots)
            and _parts(tokens, position, length) in sides
        ):
            return length
    return 0


def _parts(tokens: list[Token], position: int, length: int) -> Qualifier:
    return tuple(name_key(token.text) for token in tokens[position : position + 2 * length - 1 : 2])


def _unwrapped(text: str) -> str:
    """The text without parentheses around the whole, and around the operands of its top-level ANDs."""
    tokens = tokens_of(text) or []
    if len(tokens) < 2 or tokens[0].token_type != TokenType.L_PAREN:  # noqa: PLR2004 - an opening and a closing one
        return text
    depth, operands, start = 0, [], tokens[0].start
    for number, token in enumerate(tokens):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth == 0 and number + 1 < len(tokens):
            if token.token_type == TokenType.AND:
                operands.append(text[start : token.start])
                start = token.end + 1
            elif token.token_type != TokenType.R_PAREN:
                return text
    operands.append(text[start:])
    if len(operands) > 1:
        return " AND ".join(operand.strip() if " OR " in operand else _unwrapped(operand.strip()) for operand in operands)
    return _unwrapped(text[tokens[0].end + 1 : tokens[-1].start].strip())
