"""SQL of scripts over tables by paths or names: ``SELECT … FROM delta.`/lake/events` ``, ``MERGE INTO sales.orders …``."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, SqlTextError
from airflow_delta.core.sql_text import (
    QueriedTable,
    Question,
    TextContext,
    is_query,
    is_statement,
    parse_statement,
    tables_of_text,
)
from airflow_delta.core.statements import SqlSource, TableSource, TableStatement
from airflow_delta.spark.arguments import takes_only
from airflow_delta.spark.delta_table.named_tables import NamedTables
from airflow_delta.spark.delta_table.sql_statements import run_text
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.statement.query import QueryViews, TableAtVersion, query_rows
from airflow_delta.spark.statement.times import milliseconds

OpenTable = partial[DeltaLog]


@takes_only
def sql(
    spark: SparkSession,
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    allowed_prefixes: Iterable[str] = (),
) -> DataFrame:
    """As ``spark.sql``, with ``delta.`path` `` wherever a table may stand; the path is absolute, or a URI.

    Behind it may stand ``VERSION AS OF 3`` or ``TIMESTAMP AS OF '2021-01-01'``, a time of the session's zone where it names
    none. Of large tables the columns and files are read that the query needs. The rows are those of the versions that are the
    newest ones now, as those of ``DeltaTable.toDF``.

    A statement (``MERGE INTO``, ``OPTIMIZE`` and so on, see ``core.sql_text``) is run at once, as one commit; the DataFrame has
    the columns of delta-spark's: how many rows changed, which files were rewritten. What names no table by its path, and is
    none of Delta's own statements, is Spark's.

    With a catalog in ``AIRFLOW_DELTA_CATALOG``, ``schema.table`` and ``catalog.schema.table`` are names there, where it has
    such a Delta table (in queries behind FROM, JOIN and TABLE); all other names are Spark's. A statement by name publishes the
    table behind its commit; where that fails, there is a ``NotPublishedWarning``.

    Args:
        spark: The session.
        query: One query or statement, in Spark SQL.
        args: Values of the query's parameters; with them, all files are read. Not of statements.
        storage_options: As fsspec names them, for all of the tables; of a statement for its one table.
        allowed_prefixes: As of ``DeltaLog.for_table``.

    Raises:
        SqlTextError: A statement on a table here is outside of the grammar, or one of several in the text.
        InvalidStatementError: The statement is invalid, or the text names a version or time otherwise.
        TableNotFoundError: There is no table at a path.
        TableNameNotFoundError: The catalog has no table of a name; and the other errors of ``catalogs.errors``.
        DeltaError: As ``DeltaLog.snapshot`` and ``read_table`` raise it; of a statement as its operation does.
        AnalysisException: Spark refuses the query; likewise ``ParseException``.
    """
    open_table = partial(table_log, spark, storage_options=storage_options, allowed_prefixes=allowed_prefixes)
    names = NamedTables.of_environment(spark)
    try:
        asks = is_query(query)
        named = tables_of_text(query, names.find if names and asks else None)
    except SqlTextError:  # unclosed quotes and the like: Spark says what is wrong
        return spark.sql(query, args=args)
    statement = None if asks else _statement(spark, query, names)
    if statement is None:
        return _queried(spark, query, named, open_table, args)
    if args:
        raise InvalidStatementError(statement="sql", detail="args are those of a query; write values into a statement")
    if storage_options or allowed_prefixes:
        _check_one_table(statement)
    answer = run_text(spark, open_table, statement)
    if names is not None and not isinstance(statement, Question):
        names.publish(open_table(statement.table))
    return answer


def _statement(spark: SparkSession, text: str, names: NamedTables | None) -> TableStatement | Question | None:
    """What a text says that is no query; None where it is Spark's."""
    context = TextContext(time=partial(_time, spark))
    if is_statement(text):
        if names is not None:
            context = replace(context, resolve=names.resolve, find=names.find, place=names.place)
        return parse_statement(text, context)
    if names is None:
        return None
    try:
        return parse_statement(text, replace(context, resolve=names.find, find=names.find, place=names.place))
    except SqlTextError:  # of a table that the catalog does not have, or no statement of Delta
        return None


def _queried(
    spark: SparkSession,
    query: str,
    named: Sequence[QueriedTable],
    open_table: OpenTable,
    args: Mapping[str, Any] | Sequence[Any] | None,
) -> DataFrame:
    """The rows of a query; each version of a table is opened once."""
    opened: dict[tuple[str, int | None, str | None], str] = {}
    tables = {}
    for table in named:
        if table.key not in opened:
            name = opened[table.key] = f"delta_{uuid.uuid4().hex}"
            is_newest = table.version is None and table.time is None
            at = milliseconds(spark, table.time, statement="sql")
            tables[name] = TableAtVersion(snapshot=open_table(table.path).snapshot(table.version, at), is_newest=is_newest)
    for table in reversed(named):
        query = f"{query[: table.start]}{table.as_view(opened[table.key])}{query[table.end :]}"
    return query_rows(query, QueryViews(spark=spark, tables=tables), args)


def _time(spark: SparkSession, text: str) -> int:
    found = milliseconds(spark, text, statement="sql")
    assert found is not None  # noqa: S101 - only None is none
    return found


def _check_one_table(statement: TableStatement | Question) -> None:
    """Return unless a statement reads other tables, which options of this call do not reach."""
    source = getattr(statement, "source", None)
    others = source.views.values() if isinstance(source, SqlSource) else (source,)
    if any(isinstance(other, TableSource) for other in others):
        detail = "storage_options and allowed_prefixes reach the statement's own table only, and it reads others"
        raise InvalidStatementError(statement="sql", detail=f"{detail}; give these by the session's or the process's settings")
