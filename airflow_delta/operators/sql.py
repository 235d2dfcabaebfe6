"""SQL as a task: a query whose result is written into a table, or one of Delta Lake's statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, ClassVar

from airflow.sdk import Context

from airflow_delta.core.statements import FileSource, Source, SqlSource, Statement, TableSource
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.operators.arguments import views_of
from airflow_delta.operators.attempt import Attempt
from airflow_delta.operators.core import release_ended_pins
from airflow_delta.operators.query_files import QueryFileOperator
from airflow_delta.operators.written_rows import DeltaWrittenRowsOperator, given_for_writes

_OF_ANY = ("expect", "dry_run", "publish")
"""Arguments that can be combined with ``sql``, if the statement takes them."""


class DeltaSqlOperator(QueryFileOperator, DeltaWrittenRowsOperator):
    """Write the result of a Spark SQL query into a Delta table, or run one of Delta Lake's statements.

    With ``query``, the rows are written as one commit; the first write creates the table::

        DeltaSqlOperator(
            task_id="daily",
            table="/lake/daily",
            query="SELECT day, avg(delay) AS delay FROM flights WHERE day = DATE'{{ ds }}' GROUP BY day",
            views={"flights": "/lake/flights"},
            mode="replace_where",
            replace_where="day = DATE'{{ ds }}'",
        )

    With ``sql``, the text is the whole statement; token, result, XComs and errors are those of the statement's own operator::

        DeltaSqlOperator(task_id="purge", sql="DELETE FROM delta.`/lake/flights` WHERE day < DATE'{{ ds }}' - INTERVAL 1 YEAR")
        DeltaSqlOperator(task_id="compact", sql="OPTIMIZE delta.`/lake/flights` WHERE day = DATE'{{ ds }}' ZORDER BY (carrier)")

    Takes ``mode``, ``replace_where``, ``partition_by``, ``cluster_by``, ``merge_schema``, ``overwrite_schema``,
    ``by_position``, ``expect``, ``properties``, ``txn``, ``user_metadata``, ``dry_run`` and ``publish``, too
    (``help(airflow_delta.operators.written_rows.DeltaWrittenRowsOperator)``). Of these, only ``expect``, ``dry_run`` and
    ``publish`` apply with ``sql``, if the statement takes them.

    Args:
        table: URI of the table's root (templated). With ``sql`` it may be left out if the text names the table, as
            ``delta.`uri` ``, or by its name in the connection's catalog; if it is given, the text's name for the table is only
            an alias.
        query: One SELECT over the views, over tables as ``delta.`uri` ``, or over names in the connection's catalog; a path
            that ends in ``.sql`` is read from the DAG's folder (templated).
        sql: One statement: MERGE, DELETE, UPDATE, INSERT, COPY INTO, CREATE, ALTER, COMMENT ON, OPTIMIZE, VACUUM, REORG,
            RESTORE, CONVERT or GENERATE (templated); a path that ends in ``.sql`` is read, too. Not together with ``query``.
        views: Sources by the names that the query, or a query in the statement, may use: each a source value, or the URI of a
            Delta table (templated).
    """

    template_fields: Sequence[str] = (*DeltaWrittenRowsOperator.template_fields, "query", "sql", "views")
    argument_types: ClassVar[Mapping[str, Any]] = {
        **DeltaWrittenRowsOperator.argument_types,
        "dry_run": bool,
        **dict.fromkeys(("query", "sql"), str | None),
    }
    query_fields: ClassVar[Sequence[str]] = ("query", "sql")
    template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql", "sql": "sql"}

    def __init__(
        self,
        *,
        table: str = "",
        query: str | None = None,
        sql: str | None = None,
        views: Mapping[str, str | TableSource | FileSource] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.query = query
        self.sql = sql
        self.views = views

    def check_arguments(self) -> None:
        """As in every operator; ``sql`` is parsed when the task runs, as loading its parser would slow down DAG parsing."""
        if (self.query is None) == (self.sql is None):
            raise self.invalid("give either query, whose rows are written, or sql, a statement")
        if self.sql is None:
            super().check_arguments()
        elif given := given_for_writes(self):
            detail = f"{', '.join(given)} is part of the text of sql; do not pass it beside it"
            raise self.invalid(f"{detail}. A SELECT whose rows are to be written is given as query")

    def rows(self) -> Source:
        """The query and its views; a string among these is the URI of a Delta table."""
        return SqlSource(self.query or "", views=views_of(self.views or {}))

    def statement(self) -> Statement:
        """The statement, made from the rendered arguments."""
        return super().statement() if self.sql is None else self._from_sql(self.sql)

    def begun_statement(self) -> Statement:
        """As in every operator; names in queries are left to Spark, because resolving them would ask the catalog."""
        return super().begun_statement() if self.sql is None else self._from_sql(self.sql, finds=False)

    def _from_sql(self, sql: str, *, finds: bool = True) -> Statement:
        """Parse the text into a statement; ``finds``: whether names in its queries are looked up in the catalog."""
        texts = import_module("airflow_delta.core.sql_text")
        views = views_of(self.views or {})
        find = self.hook.delta_table_named if finds else None
        context = texts.TextContext(table=self.table or None, views=views, resolve=self._in_catalog, find=find)
        found = texts.parse_statement(sql, context)
        if isinstance(found, texts.Question):
            detail = f"{found.type_name} changes nothing; ask in a script, by airflow_delta.spark.sql, or with `airflow-delta`"
            raise self.invalid(detail)
        taken = {field.name for field in fields(found)}
        given = {name: getattr(self, name) for name in _OF_ANY if getattr(self, name) not in (False, (), [], "now")}
        if refused := sorted(given.keys() - taken):
            raise self.invalid(f"{found.type_name.replace('_', ' ').upper()} does not take {', '.join(refused)}")
        statement: Statement = replace(found, **given)
        return statement

    def _in_catalog(self, parts: tuple[str, ...]) -> str | None:
        """The quoted name, if the connection has a catalog: it is resolved later, with the statement's other names."""
        quoted = ".".join(f"`{part.replace('`', '``')}`" for part in parts)
        return quoted if len(parts) > 1 and self.hook.table_name(quoted) is not None else None

    def _name(self) -> str:
        """As in every operator; the table may be named in ``sql`` only."""
        return self.table or self.begun_statement().table

    def _perform(self, attempt: Attempt, context: Context) -> ResultDocument:
        release_ended_pins(self, attempt.statement, attempt, context)
        return super()._perform(attempt, context)
