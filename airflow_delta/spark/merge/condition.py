"""The condition of a MERGE, taken apart as far as that helps: which of its conjuncts are equalities of keys.

Texts are cut, never rewritten: each conjunct stays the user's own SQL, which only Spark analyses. Where the cut is not certain
the condition stays whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import Dialect, Token, TokenType, exp, parse_one
from sqlglot.errors import SqlglotError

from airflow_delta.core.schema import StructType

TARGET, SOURCE = "target", "source"

_SPARK = Dialect.get_or_raise("spark")
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEquality:
    """A conjunct ``target column = other side``.

    Attributes:
        column: The target's column, as its schema spells it.
        other: SQL of the other side; whether it is about the source alone, Spark tells.
        text: The conjunct.
    """

    column: str
    other: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCondition:
    """The condition as a conjunction.

    Attributes:
        keys: Conjuncts that may equate keys.
        others: All other conjuncts.
    """

    keys: tuple[KeyEquality, ...]
    others: tuple[str, ...]

    def about_target(self) -> Iterator[str]:
        """The conjuncts that only name columns of the target, as predicates on the table."""
        for text in self.others:
            tree = _parsed(text)
            columns = list(tree.find_all(exp.Column)) if tree else []
            if tree and columns and all(_is_of(each, TARGET) for each in columns) and not tree.find(exp.Query):
                for each in columns:
                    each.set("table", None)
                yield tree.sql(dialect="spark")


def parse_condition(text: str, schema: StructType) -> MergeCondition:
    """Take the condition of a MERGE into the table of this schema apart."""
    keys: list[KeyEquality] = []
    others: list[str] = []
    for conjunct in _conjuncts(text):
        key = _key_equality(conjunct, schema)
        if key is None:
            others.append(conjunct)
        else:
            keys.append(key)
    return MergeCondition(keys=tuple(keys), others=tuple(others))


def mentioned_columns(texts: list[str], schema: StructType) -> StructType:
    """The columns that these expressions may take from the target.

    These are all whose name stands in a text, unless it is clearly the source's. A star over columns mentions all.
    """
    names = {each.casefold() for each in schema.names}
    mentioned: set[str] = set()
    for text in texts:
        tokens = _tokens(text)
        if tokens is None or any(_is_star_of_columns(tokens, position) for position in range(len(tokens))):
            return schema
        for position, token in enumerate(tokens):
            name = token.text.casefold()
            if name in names and (SOURCE in names or not _is_qualified(tokens, position, SOURCE)):
                mentioned.add(name)
    return StructType(tuple(each for each in schema.fields if each.name.casefold() in mentioned))


def _conjuncts(text: str) -> list[str]:
    """The operands of the outermost ANDs, or the whole text.

    Cutting at every AND outside parentheses is right exactly when the parser finds as many operands: AND inside BETWEEN and
    CASE, or beside OR, makes the counts differ.
    """
    tree, tokens = _parsed(text), _tokens(text)
    if tree is None or not tokens:
        return [text]
    pieces = _split(tokens, TokenType.AND)
    operands = list(tree.flatten(unnest=False)) if isinstance(tree, exp.And) else [tree]
    if len(operands) != len(pieces) or not all(pieces):
        return [text]
    return [text[piece[0].start : piece[-1].end + 1] for piece in pieces]


def _key_equality(text: str, schema: StructType) -> KeyEquality | None:
    tree, tokens = _parsed(text), _tokens(text)
    if not isinstance(tree, exp.EQ) or not tokens:
        return None
    sides = _split(tokens, TokenType.EQ)
    if len(sides) != 2 or not all(sides):  # noqa: PLR2004 - an equality has two
        return None
    left, right = (text[side[0].start : side[-1].end + 1] for side in sides)
    for tree_side, other in ((tree.left, right), (tree.right, left)):
        field = schema.find(tree_side.name) if isinstance(tree_side, exp.Column) and _is_of(tree_side, TARGET) else None
        if field is not None:
            return KeyEquality(column=field.name, other=other, text=text)
    return None


def _split(tokens: list[Token], at: TokenType) -> list[list[Token]]:
    """The pieces between tokens of this type that stand outside all parentheses."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if token.token_type == at and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _is_of(column: exp.Column, side: str) -> bool:
    return column.table.casefold() == side and not column.args.get("db") and not isinstance(column.this, exp.Star)


def _is_qualified(tokens: list[Token], position: int, side: str) -> bool:
    """Whether the token at ``position`` stands right behind ``side.``, which itself follows no dot."""
    qualifier, dot = position - 2, position - 1
    return (
        qualifier >= 0
        and tokens[dot].token_type == TokenType.DOT
        and tokens[qualifier].text.casefold() == side
        and (qualifier == 0 or tokens[qualifier - 1].token_type != TokenType.DOT)
    )


def _is_star_of_columns(tokens: list[Token], position: int) -> bool:
    """Whether the token is ``*`` for columns that may be the target's, rather than a multiplication or ``source.*``."""
    if tokens[position].token_type != TokenType.STAR or _is_qualified(tokens, position, SOURCE):
        return False
    return position == 0 or tokens[position - 1].token_type in {TokenType.DOT, TokenType.COMMA, *_OPENING}


def _parsed(text: str) -> Any:
    try:
        return parse_one(text, dialect=_SPARK)
    except SqlglotError:
        return None


def _tokens(text: str) -> list[Token] | None:
    try:
        return _SPARK.tokenize(text)
    except SqlglotError:
        return None
