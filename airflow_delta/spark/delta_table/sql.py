"""Queries of scripts over tables by their paths: ``SELECT … FROM delta.`/lake/events```."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sqlglot import Token, TokenType

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.table_uri import is_relative
from airflow_delta.spark.constraints.column_references import tokens_of
from airflow_delta.spark.delta_table.times import milliseconds
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.statement.query import QueryViews, TableAtVersion, query_rows

_QUERIES = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "(")
_VERSION, _TIME = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")


def sql(
    spark: SparkSession,
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    allowed_prefixes: Iterable[str] = (),
) -> DataFrame:
    """As ``spark.sql``, with ``delta.`path``` wherever a table may stand; the path is absolute, or a URI.

    Behind it may stand ``VERSION AS OF 3`` or ``TIMESTAMP AS OF '2021-01-01'``, a time of the session's zone where it names
    none. Of large tables the columns and files are read that the query needs. The rows are those of the versions that are the
    newest ones now, as those of ``DeltaTable.toDF``.

    Args:
        spark: The session.
        query: One query, in Spark SQL.
        args: Values of the query's parameters; with them, all files are read.
        storage_options: As fsspec names them, for all of the tables.
        allowed_prefixes: As of ``DeltaLog.for_table``.

    Raises:
        InvalidStatementError: The text is no query but a statement, or names a version or time otherwise.
        TableNotFoundError: There is no table at a path.
        DeltaError: As ``DeltaLog.snapshot`` and ``read_table`` raise it.
        AnalysisException: Spark refuses the query; likewise ``ParseException``.
    """
    tokens = tokens_of(query) or []
    named = [table for position in range(len(tokens)) if (table := _table_at(spark, tokens, position)) is not None]
    if named and tokens[0].text.upper() not in _QUERIES:
        detail = f"it answers queries; {tokens[0].text} on delta.`path` is done by DeltaTable, delta_writer or a statement"
        raise InvalidStatementError(statement="sql", detail=detail)
    opened: dict[tuple[str, int | None, int | None], str] = {}
    tables = {}
    for table in named:
        if table.key not in opened:
            log = table_log(spark, table.path, storage_options, allowed_prefixes)
            name = opened[table.key] = f"delta_{uuid.uuid4().hex}"
            is_newest = table.version is None and table.time is None
            tables[name] = TableAtVersion(snapshot=log.snapshot(table.version, table.time), is_newest=is_newest)
    for table in reversed(named):
        query = f"{query[: table.start]}{opened[table.key]}{query[table.end :]}"
    return query_rows(query, QueryViews(spark=spark, tables=tables), args)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedTable:
    """A table in a text, from one position to another."""

    path: str
    version: int | None
    time: int | None
    start: int
    end: int

    @property
    def key(self) -> tuple[str, int | None, int | None]:
        return self.path, self.version, self.time


def _table_at(spark: SparkSession, tokens: Sequence[Token], position: int) -> _NamedTable | None:
    """The table whose name begins at a token; None where none does: an alias may be ``delta``, but no column is like a path."""
    first, path = tokens[position], tokens[position + 2] if position + 2 < len(tokens) else None
    if path is None or first.text.lower() != "delta" or tokens[position + 1].token_type != TokenType.DOT:
        return None
    is_member = position > 0 and tokens[position - 1].token_type == TokenType.DOT
    if is_member or first.token_type == TokenType.STRING:
        return None
    if path.token_type != TokenType.IDENTIFIER or is_relative(path.text):
        return None
    version, time, end = _at_version(spark, tokens, position + 3)
    return _NamedTable(path=path.text, version=version, time=time, start=first.start, end=tokens[end - 1].end + 1)


def _at_version(spark: SparkSession, tokens: Sequence[Token], position: int) -> tuple[int | None, int | None, int]:
    """The version or the time (milliseconds) that stands behind a name, and the position of the token behind it."""
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
        return None, milliseconds(spark, literal.text, statement="sql"), position + 1
    wanted = "a number" if kind in _VERSION else "a time as text"
    found = "nothing" if literal is None else literal.text
    raise InvalidStatementError(statement="sql", detail=f"expected {wanted} behind {kind} AS OF, found {found}")


def _word(tokens: Sequence[Token], position: int) -> str:
    if position >= len(tokens) or tokens[position].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return ""
    return tokens[position].text.upper()
