"""Splits the condition of a MERGE into conjuncts, to find those that are equalities of keys.

Texts are only cut, never rewritten: each conjunct remains the user's own SQL, which only Spark analyzes. If cutting might be
wrong, the condition stays whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import Token, TokenType, exp

from airflow_delta.core.predicate.syntax import CLOSING, OPENING, SPARK, UNPARSABLE, may_lack_plus, parsed
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.constraints.column_references import SOURCE, TARGET, tokens_of, unqualified

_PARSER = SPARK.parser_class
_BESIDE_EQUALITY = frozenset({TokenType.NOT, *_PARSER.COMPARISON, *_PARSER.RANGE_PARSERS})
"""Operators for which sqlglot parses ``a = b < c`` as ``a = (b < c)``, and Spark as ``(a = b) < c``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEquality:
    """A conjunct ``target column = other side``.

    Attributes:
        column: The target column, as its schema spells it.
        other: SQL of the other side; Spark determines whether it only references the source.
        source_column: Name of the source column, if the other side is just a column; else None.
        text: The whole conjunct.
    """

    column: str
    other: str
    source_column: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCondition:
    """The condition as a list of conjuncts.

    Attributes:
        keys: Conjuncts that may be equalities of keys.
        others: All other conjuncts.
    """

    keys: tuple[KeyEquality, ...]
    others: tuple[str, ...]

    def about_target(self, schema: StructType) -> Iterator[str]:
        """The conjuncts that only reference columns of the target, which has this schema, as predicates on the table."""
        for text in self.others:
            tree = _parsed(text)
            columns = list(tree.find_all(exp.Column)) if tree else []
            if tree and columns and all(_is_of(column, TARGET) for column in columns) and not tree.find(exp.Query):
                yield unqualified(text, schema)


def parse_condition(text: str, schema: StructType) -> MergeCondition:
    """Split the condition of a MERGE into a table with this schema."""
    keys: list[KeyEquality] = []
    others: list[str] = []
    for conjunct in _conjuncts(text):
        key = _key_equality(conjunct, schema)
        if key is None:
            others.append(conjunct)
        else:
            keys.append(key)
    return MergeCondition(keys=tuple(keys), others=tuple(others))


def _conjuncts(text: str) -> list[str]:
    """The operands of the top-level ANDs, or the whole text.

    Cutting at every AND outside of parentheses is right exactly if the parser finds the same number of operands: an AND inside
    BETWEEN or CASE, or next to OR, makes the counts differ.
    """
    tree, tokens = _parsed(text), tokens_of(text)
    if tree is None or not tokens:
        return [text]
    pieces = _split(tokens, {TokenType.AND})
    operands = list(tree.flatten(unnest=False)) if isinstance(tree, exp.And) else [tree]
    if len(operands) != len(pieces) or not all(pieces):
        return [text]
    return [text[piece[0].start : piece[-1].end + 1] for piece in pieces]


def _key_equality(text: str, schema: StructType) -> KeyEquality | None:
    tree, tokens = _parsed(text), tokens_of(text)
    if not isinstance(tree, exp.EQ) or not tokens or may_lack_plus(tree, text):
        return None
    sides = _split(tokens, {TokenType.EQ})
    if len(sides) != 2 or not all(sides):  # noqa: PLR2004 - an equality has two
        return None
    is_equality = len(_split(tokens, _BESIDE_EQUALITY)) == 1
    left, right = (text[side[0].start : side[-1].end + 1] for side in sides)
    for tree_side, tree_other, other in ((tree.left, tree.right, right), (tree.right, tree.left, left)):
        field = schema.find(tree_side.name) if isinstance(tree_side, exp.Column) and _is_of(tree_side, TARGET) else None
        if field is not None and (is_equality or isinstance(tree_other, exp.Case)):  # all of CASE … END is one operand
            is_plain = isinstance(tree_other, exp.Column) and _is_of(tree_other, SOURCE)
            plain = tree_other.name if is_plain else None
            return KeyEquality(column=field.name, other=other, source_column=plain, text=text)
    return None


def _split(tokens: list[Token], at: Collection[TokenType]) -> list[list[Token]]:
    """The parts between tokens of these types outside of parentheses."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if token.token_type in at and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _is_of(column: exp.Column, side: str) -> bool:
    return name_key(column.table) == side and not column.args.get("db") and not isinstance(column.this, exp.Star)


def _parsed(text: str) -> Any:
    try:
        return parsed(text)
    except UNPARSABLE:
        return None
