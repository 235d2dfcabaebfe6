"""SQL over tables given by paths or catalog names: ``SELECT … FROM delta.`/lake/events` ``, ``MERGE INTO sales.orders …``."""

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
    """As ``spark.sql``, with ``delta.`path` `` wherever a table is allowed; the path is absolute, or a URI.

    A table may be followed by ``VERSION AS OF 3`` or ``TIMESTAMP AS OF '2021-01-01'`` (in the session's time zone if it names
    none). Only the columns and files that the query needs are read. The rows are those of the versions that are newest now, as
    with ``DeltaTable.toDF``.

    A statement (``MERGE INTO``, ``OPTIMIZE`` and so on, see ``core.sql_text``) runs immediately, as one commit; the DataFrame
    has delta-spark's columns, such as the number of changed rows or the rewritten files. A text that names no table by path,
    and is not one of Delta's own statements, is passed to Spark.

    With a catalog in ``AIRFLOW_DELTA_CATALOG``, ``schema.table`` and ``catalog.schema.table`` refer to its Delta tables (in
    queries after FROM, JOIN and TABLE); all other names are Spark's. A statement by name publishes the table after its commit;
    a failure of that is a ``NotPublishedWarning``.

    Args:
        spark: The session.
        query: One query or statement, in Spark SQL.
        args: Values of the query's parameters; with parameters, no files are skipped. Not for statements.
        storage_options: Storage options in fsspec's names, for all tables in a query, or the single table of a statement.
        allowed_prefixes: As of ``DeltaLog.for_table``.

    Raises:
        SqlTextError: A statement on a table here is outside of the grammar, or is one of several in the text.
        InvalidStatementError: The statement is invalid, or a version or time is given in an invalid form.
        TableNotFoundError: There is no table at a path.
        TableNameNotFoundError: The catalog has no table of this name. Also the other errors of ``catalogs.errors``.
        DeltaError: As ``DeltaLog.snapshot`` and ``read_table`` raise it; for a statement, as its operation does.
        AnalysisException: Spark refuses the query; likewise ``ParseException``.
    """
    open_table = partial(table_log, spark, storage_options=storage_options, allowed_prefixes=allowed_prefixes)
    names = NamedTables.of_environment(spark)
    try:
        asks = is_query(query)
        named = tables_of_text(query, names.find if names and asks else None)
    except SqlTextError:  # for example an unclosed quote: Spark reports what is wrong
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
    """The statement or question in a text; None if the text is a query, or for Spark."""
    context = TextContext(time=partial(_time, spark))
    if is_statement(text):
        if names is not None:
            context = replace(context, resolve=names.resolve, find=names.find, place=names.place)
        return parse_statement(text, context)
    if names is None:
        return None
    try:
        return parse_statement(text, replace(context, resolve=names.find, find=names.find, place=names.place))
    except SqlTextError:  # about a table outside of the catalog, or not one of Delta's statements
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
    """Raise if a statement reads other tables, to which the options of this call do not apply."""
    source = getattr(statement, "source", None)
    others = source.views.values() if isinstance(source, SqlSource) else (source,)
    if any(isinstance(other, TableSource) for other in others):
        detail = "storage_options and allowed_prefixes reach the statement's own table only, and it reads others"
        raise InvalidStatementError(statement="sql", detail=f"{detail}; give these by the session's or the process's settings")
