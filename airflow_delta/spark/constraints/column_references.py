"""Which columns of a table a SQL text may reference, found from its tokens alone, as only Spark analyzes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlglot import Token, TokenType, exp

from airflow_delta.core.predicate import syntax
from airflow_delta.core.predicate.syntax import OPENING, UNPARSABLE, parsed
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.schema_conversion import quoted

TARGET, SOURCE = "target", "source"
"""The names of the table, and of the rows to merge into it, in a statement's SQL."""


def column_references(texts: list[str], schema: StructType) -> StructType:
    """The target's columns that these expressions may reference.

    Includes every column whose name occurs in a text, unless it is clearly qualified by the source. A star includes all
    columns.
    """
    names = {name_key(name) for name in schema.names}
    referenced: set[str] = set()
    for text in dict.fromkeys(texts):
        tokens = tokens_of(text)
        if tokens is None or any(_is_star_of_columns(tokens, position) for position in range(len(tokens))):
            return schema
        for position, token in enumerate(tokens):
            name = name_key(token.text)
            if name in names and (SOURCE in names or not _is_qualified(tokens, position, SOURCE)):
                referenced.add(name)
    return StructType(tuple(field for field in schema.fields if name_key(field.name) in referenced))


def tokens_of(text: str) -> list[Token] | None:
    """The tokens of a SQL text; None if it cannot be tokenized, for example because of an unclosed quote."""
    try:
        return syntax.tokens_of(text)
    except UNPARSABLE:
        return None


def _is_qualified(tokens: list[Token], position: int, side: str) -> bool:
    """Whether the token at ``position`` directly follows ``side.``, which itself follows no dot."""
    qualifier, dot = position - 2, position - 1
    return (
        qualifier >= 0
        and tokens[dot].token_type == TokenType.DOT
        and tokens[qualifier].token_type != TokenType.STRING
        and name_key(tokens[qualifier].text) == side
        and (qualifier == 0 or tokens[qualifier - 1].token_type != TokenType.DOT)
    )


def _is_star_of_columns(tokens: list[Token], position: int) -> bool:
    """Whether the token is ``*`` for columns that may be the target's, rather than a multiplication or ``source.*``."""
    if tokens[position].token_type != TokenType.STAR or _is_qualified(tokens, position, SOURCE):
        return False
    return position == 0 or tokens[position - 1].token_type in {TokenType.DOT, TokenType.COMMA, *OPENING}


def qualified(text: str, side: str, names: Collection[str]) -> str:
    """The text, with unqualified columns of these names (in lower case) qualified by ``side``.

    For clauses that see only one side, if both sides have a column of that name. The rest of the text stays unchanged, as does
    a text that the parser does not understand, or in which names may belong to a subquery.
    """
    try:
        tree = parsed(text)
    except UNPARSABLE:
        return text
    if tree.find(exp.Query):
        return text
    columns = [(column, column.args[_outermost(column) or "this"]) for column in tree.find_all(exp.Column)]
    plain = [first for column, first in columns if name_key(first.name) in names and not _says_its_side(column)]
    for start in sorted({name.meta["start"] for name in plain if "start" in name.meta}, reverse=True):
        text = f"{text[:start]}{side}.{text[start:]}"
    return text


def unqualified(text: str, schema: StructType) -> str:
    """The text with ``target.column`` written as ``column``, for readers that know no aliases; the rest stays unchanged.

    Whatever can only be a field of the table's own column ``target`` stays unchanged, too.
    """
    members = _members_of_target(schema)
    tokens = tokens_of(text) or []
    named = (position for position in range(2, len(tokens)) if _is_qualified(tokens, position, TARGET))
    for position in sorted(named, reverse=True):
        name = tokens[position].text
        if schema.find(name) is not None or members is None or members.find(name) is None:
            text = text[: tokens[position - 2].start] + text[tokens[position].start :]
    return text


def unqualified_target(name: str) -> str | None:
    """The part after ``target.`` in the path of a column; None if the path begins differently."""
    qualifier = f"{TARGET}."
    return name[len(qualifier) :] if name_key(name[: len(qualifier)]) == qualifier else None


def ambiguous_member(text: str, schema: StructType) -> str | None:
    """Why a text about the table alone is ambiguous, and what to write instead; None if it is not ambiguous.

    ``target.x`` may be the column x, or the field x of a column called ``target``, if the table has both.
    """
    for _, token in _ambiguous(text, schema):
        name, own = text[token.start : token.end + 1], f"{TARGET}.{TARGET}"
        return f"{TARGET}.{name} is ambiguous, write {name} for the column or {own}.{name} for the member of {TARGET}"
    return None


def without_ambiguity(text: str, schema: StructType) -> str:
    """The text with each ``target.x`` that ``ambiguous_member`` finds written as the column x."""
    for qualifier, token in reversed(list(_ambiguous(text, schema))):
        text = text[: qualifier.start] + quoted(token.text) + text[token.end + 1 :]
    return text


def _ambiguous(text: str, schema: StructType) -> Iterator[tuple[Token, Token]]:
    """Each ``target`` before a name that is both a column and a field of the column ``target``, with this name."""
    members = _members_of_target(schema)
    tokens = (tokens_of(text) or []) if members is not None else []
    for position in range(2, len(tokens)):
        name = tokens[position].text
        if _is_qualified(tokens, position, TARGET) and members and members.find(name) and schema.find(name):
            yield tokens[position - 2], tokens[position]


def _members_of_target(schema: StructType) -> StructType | None:
    """The fields of the table's own column ``target``; None without such a column, or if it is not a struct."""
    own = schema.find(TARGET)
    return own.type if own is not None and isinstance(own.type, StructType) else None


def without_qualifier(text: str, qualifier: Sequence[str]) -> str:
    """The text, in which Spark qualifies every column, without this qualifier."""
    names = [part for name in qualifier for part in (name, ".")]
    tokens = (tokens_of(text) or []) if names else []
    spelled = [token.text for token in tokens]
    for start in reversed(range(len(tokens) - len(names))):
        end = start + len(names)
        if spelled[start:end] == names and (start == 0 or spelled[start - 1] != "."):
            text = text[: tokens[start].start] + text[tokens[end].start :]
    return text


def _says_its_side(column: exp.Column) -> str | None:
    """The side named by the first part of the column's path, if more parts follow."""
    part = _outermost(column)
    first = None if part is None else name_key(column.text(part))
    return first if first in (TARGET, SOURCE) else None


def _outermost(column: exp.Column) -> str | None:
    """The part of the parser's column that holds the first of several names; it takes fields of structs for schemas."""
    return next((part for part in ("catalog", "db", "table") if column.args.get(part)), None)
