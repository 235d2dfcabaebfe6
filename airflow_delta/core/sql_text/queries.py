"""Tables in queries, by path or catalog name: ``SELECT … FROM delta.`/lake/events` VERSION AS OF 3``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType

from airflow_delta.core.errors import InvalidStatementError, SqlTextError
from airflow_delta.core.predicate.syntax import CLOSING, OPENING
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.sql_text.names import PATH_FORMAT, TextContext, View
from airflow_delta.core.sql_text.words import Words, word_of
from airflow_delta.core.statements import SqlSource, TableSource
from airflow_delta.core.storage.table_uri import is_relative
from airflow_delta.core.table_changes.ddl import string_value

FindTable = Callable[[tuple[str, ...]], str | None]

_BEGINNINGS = frozenset({"SELECT", "FROM", "WITH", "TABLE", "VALUES", "MAP", "REDUCE"})
_CLAUSES = frozenset(
    {"SELECT", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT"}
)
_QUERIES = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT"})
_BEHIND_LISTS = _CLAUSES | _QUERIES
_JOINS = frozenset({"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "ANTI", "SEMI", "LATERAL", "ON", "USING"})
_NO_ALIASES = _BEHIND_LISTS | _JOINS | {"SETMINUS", "OFFSET", "PIVOT", "UNPIVOT", "WITH", "INSERT"}
"""Words that may follow a table; any other word is its alias, as in Spark, which reserves few words."""

_MOST_PARTS = 3
_VERSION, _TIME = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedTable:
    """A table in a query, and its range of positions in the text.

    Attributes:
        version: The version in the text; None without one.
        time: The time in the text; None without one.
        alias: The name by which the query refers to a table named without an alias; else None.
    """

    path: str
    version: int | None
    time: str | None
    start: int
    end: int
    alias: str | None = None

    def as_view(self, view: str) -> str:
        """The text to put in its place, if a view has its rows."""
        return view if self.alias is None else f"{view} AS `{self.alias.replace('`', '``')}`"

    @property
    def key(self) -> tuple[str, int | None, str | None]:
        """Equal for names that refer to the same rows."""
        return self.path, self.version, self.time


def queried_tables(tokens: Sequence[Token], text: str, find: FindTable | None = None) -> list[QueriedTable]:
    """The tables named by path, or by a name that ``find`` knows, in order.

    Args:
        tokens: Tokens of the text, or of a part of it.
        text: The whole text.
        find: Gives the location of a table, by the parts of its name; returns None for a name that is unknown, and Spark's.
            Called for names after FROM, JOIN, TABLE, or a comma in a list of tables. Without it, only paths are found.

    Raises:
        InvalidStatementError: A version or time is neither a number nor a text.
    """
    named = set(_places_of_names(tokens)) if find else set()
    found = (
        _table_at(tokens, at, text) or (_named_at(tokens, at, text, find) if find and at in named else None)
        for at in range(len(tokens))
    )
    return [table for table in found if table]


def query_source(
    words: Words, tokens: Sequence[Token], context: TextContext, more: Mapping[str, View] | None = None
) -> SqlSource:
    """A query as the source of a statement: each table that it names by path or in a catalog becomes a view.

    Args:
        words: The text.
        tokens: Tokens of the query.
        context: Provides the views.
        more: Additional views.
    """
    found = queried_tables(tokens, words.text, context.find)
    taken = {name_key(token.text) for token in tokens} | set(map(name_key, context.views))
    free = (name for number in range(len(tokens) + len(context.views) + 1) if (name := f"delta_{number}") not in taken)
    names: dict[tuple[str, int | None, str | None], str] = {}
    tables: dict[str, View] = {}
    for table in found:
        if table.key not in names:
            name = names[table.key] = next(free)
            time = None if table.time is None else context.time(table.time)
            tables[name] = TableSource(table.path, version=table.version, timestamp=time)
    replaced = {(table.start, table.end): table.as_view(names[table.key]) for table in found}
    return SqlSource(words.replaced(tokens, replaced), views={**context.views, **(more or {}), **tables})


def with_named_views(source: SqlSource, find: FindTable) -> SqlSource:
    """The query, with each table named by path, or by a name that ``find`` knows, as a view; all others are left to Spark.

    A text that cannot be parsed here is returned unchanged, so that Spark reports the error.
    """
    try:
        words = Words(source.query, "SQL")
        found = query_source(words, words.all, TextContext(views=source.views, find=find))
    except SqlTextError:
        return source
    return source if found.views.keys() == source.views.keys() else found


def _table_at(tokens: Sequence[Token], position: int, text: str) -> QueriedTable | None:
    """The table whose name begins at a token, or None. An alias may be ``delta``, but no column name looks like a path."""
    first, path = tokens[position], tokens[position + 2] if position + 2 < len(tokens) else None
    if path is None or first.text.lower() != PATH_FORMAT or tokens[position + 1].token_type != TokenType.DOT:
        return None
    is_member = position > 0 and tokens[position - 1].token_type == TokenType.DOT
    if is_member or first.token_type == TokenType.STRING:
        return None
    if path.token_type != TokenType.IDENTIFIER or is_relative(path.text):
        return None
    version, time, end = _at_version(tokens, position + 3, text)
    return QueriedTable(path=path.text, version=version, time=time, start=first.start, end=tokens[end - 1].end + 1)


def _places_of_names(tokens: Sequence[Token]) -> Iterator[int]:
    """Positions where a table name may begin: after FROM, JOIN, TABLE, a comma in a list of tables, or a parenthesis there."""
    lists = [False]  # for each open parenthesis, whether a comma continues a list of tables
    queries = [True]  # likewise, whether FROM belongs to a query rather than to a function, as in extract(year FROM x)
    listed = -1  # position of the next element of the list
    for position, token in enumerate(tokens):
        is_member = position > 0 and tokens[position - 1].token_type == TokenType.DOT
        word = None if is_member else word_of(token)
        begins_list = word == "JOIN" or (word == "FROM" and queries[-1] and _word(tokens, position - 1) != "DISTINCT")
        if token.token_type in OPENING:
            lists.append(False)
            queries.append(_begins_query(tokens, position + 1))
        elif token.token_type in CLOSING:
            lists, queries = lists[:-1] or [False], queries[:-1] or [True]
        elif word in _BEHIND_LISTS:
            lists[-1] = False
        elif begins_list:
            lists[-1] = True
        is_opened = token.token_type == TokenType.L_PAREN and (position == listed or _word(tokens, position - 1) == "TABLE")
        if begins_list or (token.token_type == TokenType.COMMA and lists[-1]) or is_opened:
            listed = position + 1
        if listed == position + 1 or word == "TABLE":
            yield position + 1


def _begins_query(tokens: Sequence[Token], position: int) -> bool:
    """Whether a query, or a list of tables, may begin at a token."""
    is_opening = position < len(tokens) and tokens[position].token_type == TokenType.L_PAREN
    return is_opening or _word(tokens, position) in _BEGINNINGS


def _named_at(tokens: Sequence[Token], position: int, text: str, find: FindTable) -> QueriedTable | None:
    """The table whose multi-part name begins at a token; None if there is no name, or the table is unknown."""
    front = _word(tokens, position - 2 if _word(tokens, position - 1) == "(" else position - 1)
    parts: list[str] = []
    end = position
    while end < len(tokens) and len(parts) <= _MOST_PARTS and _is_name(tokens[end]):
        parts.append(tokens[end].text)
        end += 1
        if end == len(tokens) or tokens[end].token_type != TokenType.DOT:
            break
        end += 1
    is_function = end < len(tokens) and tokens[end].token_type == TokenType.L_PAREN
    if not 1 < len(parts) <= _MOST_PARTS or is_function or (path := find(tuple(parts))) is None:
        return None
    version, time, end = _at_version(tokens, end, text)
    behind = _word(tokens, end)
    is_quoted = end < len(tokens) and tokens[end].token_type == TokenType.IDENTIFIER
    has_alias = is_quoted or (behind.isidentifier() and behind not in _NO_ALIASES)  # or AS, or TABLESAMPLE before an alias
    alias = None if has_alias or front == "TABLE" else parts[-1]  # no alias is allowed after TABLE
    return QueriedTable(
        path=path, version=version, time=time, start=tokens[position].start, end=tokens[end - 1].end + 1, alias=alias
    )


def _is_name(token: Token) -> bool:
    return token.token_type == TokenType.IDENTIFIER or word_of(token) is not None


def _at_version(tokens: Sequence[Token], position: int, text: str) -> tuple[int | None, str | None, int]:
    """The version or time after a name, and the position of the token after it."""
    start = position
    position += _word(tokens, position) == "FOR"
    kind = _word(tokens, position)
    if kind not in (*_VERSION, *_TIME) or (_word(tokens, position + 1), _word(tokens, position + 2)) != ("AS", "OF"):
        return None, None, start
    position += 3
    if kind in _TIME:
        position += _word(tokens, position) in ("TIMESTAMP", "DATE")
    literal = tokens[position] if position < len(tokens) else None
    if literal is not None and kind in _VERSION and literal.text.isdecimal():
        return int(literal.text), None, position + 1
    if literal is not None and kind in _TIME and literal.token_type == TokenType.STRING:
        return None, string_value(text[literal.start : literal.end + 1]), position + 1
    wanted = "a number" if kind in _VERSION else "a time as text"
    found = "nothing" if literal is None else literal.text
    raise InvalidStatementError(statement="sql", detail=f"expected {wanted} behind {kind} AS OF, found {found}")


def _word(tokens: Sequence[Token], position: int) -> str:
    return (0 <= position < len(tokens) and word_of(tokens[position])) or ""
