"""Parses DELETE, UPDATE and INSERT."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from airflow_delta.core.sql_text.expressions import Sides
from airflow_delta.core.sql_text.names import TextContext, table_alias, table_name
from airflow_delta.core.sql_text.queries import query_source
from airflow_delta.core.sql_text.words import QUERIES, Words, word_of
from airflow_delta.core.statements import DeleteStatement, SqlSource, UpdateStatement, WriteMode, WriteStatement

_INSERTED = "inserted"
_BEHIND_RANGE = tuple(word for word in QUERIES if word not in {"FROM", "("})
"""Words that end the condition of REPLACE WHERE. Not FROM (IS DISTINCT FROM) or a parenthesis, which may be part of it."""
_NAMES_TOO = ("VALUES", "TABLE")
"""Those of the words that Spark also allows as column names, where the condition is still incomplete."""
_TILDE = "TILDE" if "TILDE" in TokenType.__members__ else "TILDA"  # the name in sqlglot 27 and early 28
_OPERATORS = frozenset(
    getattr(TokenType, name)
    for name in (
        *("AND", "OR", "NOT", "EQ", "NEQ", "NULLSAFE_EQ", "GT", "GTE", "LT", "LTE", "LIKE", "RLIKE", "ILIKE", "BETWEEN"),
        *("FROM", "PLUS", "DASH", "STAR", "SLASH", "MOD", "DIV", "DPIPE", "AMP", "PIPE", "CARET", _TILDE),
    )
)


def read_delete(words: Words, context: TextContext) -> DeleteStatement:
    """DELETE FROM table [alias] [WHERE condition]."""
    words.expect("DELETE", "FROM")
    name = table_name(words)
    where = _condition(words, Sides.of_target(words, name.called(table_alias(words, "WHERE"))))
    words.end()
    return DeleteStatement(table=context.target_uri(words, name), where=where)


def read_update(words: Words, context: TextContext) -> UpdateStatement:
    """UPDATE table [alias] SET column = value, … [WHERE condition]."""
    words.expect("UPDATE")
    name = table_name(words)
    sides = Sides.of_target(words, name.called(table_alias(words, "SET")))
    words.expect("SET")
    assignments = sides.assignments(words.until("WHERE"))
    where = _condition(words, sides)
    words.end()
    return UpdateStatement(table=context.target_uri(words, name), assignments=assignments, where=where)


def read_insert(words: Words, context: TextContext) -> WriteStatement:
    """INSERT [WITH SCHEMA EVOLUTION] INTO|OVERWRITE [TABLE] table [(columns) | BY NAME] [REPLACE WHERE condition] query."""
    words.expect("INSERT")
    evolves = words.skip("WITH", "SCHEMA", "EVOLUTION")
    mode = WriteMode.OVERWRITE if words.skip("OVERWRITE") else WriteMode.APPEND
    if mode is WriteMode.APPEND:
        words.expect("INTO")
    words.skip("TABLE")
    name = table_name(words)
    by_name = words.skip("BY", "NAME")
    columns = () if by_name or not _lists_columns(words) else words.listed(lambda: words.name("a column"))
    where = None
    if words.next_is("PARTITION"):
        raise words.error("PARTITION is not taken", "write REPLACE WHERE and a condition on the partition columns")
    if mode is WriteMode.APPEND and words.skip("REPLACE", "WHERE"):
        mode = WriteMode.REPLACE_WHERE
        where = Sides.of_target(words, name.called()).expression(_range(words), "REPLACE WHERE")
    query = words.query()
    words.end()
    if (default := _default_among(query)) is not None:
        instead = "name the columns that get values in front of VALUES; those that are left out get their default"
        raise words.error("DEFAULT is not taken in VALUES", instead, at=default.start)
    return WriteStatement(
        table=context.target_uri(words, name),
        source=_named(query_source(words, query, context), columns),
        mode=mode,
        replace_where=where,
        merge_schema=evolves,
        by_position=not by_name and not columns,
    )


def _condition(words: Words, sides: Sides) -> str | None:
    return sides.expression(words.rest(), "WHERE") if words.skip("WHERE") else None


def _range(words: Words) -> list[Token]:
    """The condition of REPLACE WHERE."""
    condition = words.until(*_BEHIND_RANGE)
    while words.peek() in _NAMES_TOO and (not condition or condition[-1].token_type in _OPERATORS):
        condition += [words.take(), *words.until(*_BEHIND_RANGE)]
    return condition


def _default_among(query: Sequence[Token]) -> Token | None:
    """The first value of VALUES that is DEFAULT, which Spark only supports in its own INSERT."""
    if not query or word_of(query[0]) != "VALUES":
        return None
    beside = {TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA}
    values = zip(query, query[1:], [*query[2:], None], strict=False)
    return next(
        (
            token
            for before, token, after in values
            if word_of(token) == "DEFAULT"
            and (before.token_type in beside or before is query[0])
            and (after is None or after.token_type in beside)
        ),
        None,
    )


def _lists_columns(words: Words) -> bool:
    """Whether a column list follows, rather than a query in parentheses."""
    return words.is_at(TokenType.L_PAREN) and not words.is_behind(TokenType.L_PAREN, *QUERIES)


def _named(source: SqlSource, columns: Sequence[str]) -> SqlSource:
    """The rows of a query with these column names; Spark checks their number."""
    if not columns:
        return source
    names = ", ".join(f"`{column.replace('`', '``')}`" for column in columns)
    query = f"SELECT * FROM (\n{source.query}\n) AS {_INSERTED} ({names})"  # noqa: S608 - it is the user's own SQL
    return SqlSource(query, views=source.views)
