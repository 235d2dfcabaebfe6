"""MERGE as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, ClassVar

from airflow_delta.core.statements import (
    UPSERT,
    Clause,
    Expectation,
    FileSource,
    MergeStatement,
    Source,
    Statement,
    TableSource,
)
from airflow_delta.operators.arguments import argument_names, source_of, views_of
from airflow_delta.operators.query_files import QueryFileOperator


class DeltaMergeOperator(QueryFileOperator):
    """Merge the rows of a source into a Delta table, as one commit.

    In expressions, ``target`` is the table and ``source`` the source::

        DeltaMergeOperator(
            task_id="silver",
            table="s3://lake/flights",
            source="s3://lake/feed",
            source_version="{{ ti.xcom_pull('bronze', key='delta_version') }}",
            on="target.flight = source.flight AND target.day = DATE'{{ ds }}'",
            clauses=[MatchedDelete(condition="source.cancelled"), *UPSERT],
        )

    or as one SQL text, in which both sides may have any alias::

        DeltaMergeOperator(
            task_id="silver",
            table="s3://lake/flights",
            source="s3://lake/feed",
            sql='''
                MERGE WITH SCHEMA EVOLUTION INTO flights f USING feed s ON f.flight = s.flight
                WHEN MATCHED THEN UPDATE SET *
                WHEN NOT MATCHED THEN INSERT *
                WHEN NOT MATCHED BY SOURCE AND f.day < DATE'{{ ds }}' THEN DELETE
            ''',
        )

    Args:
        table: URI of the table's root (templated).
        source: URI of a Delta table, or a source value (templated). With ``sql``, it is what the name after USING stands for;
            leave it out if that is one of ``views``, a query in parentheses, or a table that Spark knows.
        on: Condition by which rows match: Spark SQL (templated). Not together with ``sql``.
        clauses: What happens to rows that match and to those that do not, in order (templated). Default: update and insert. Not
            together with ``sql``.
        sql: The statement as ``MERGE INTO`` text (templated); a path that ends in ``.sql`` is read from the DAG's folder.
        views: For ``sql``: names that its source may use, each a source value or the URI of a Delta table (templated).
        source_version: Version of the source table to read (templated). Default: the latest when the job starts.
        schema_evolution: Add columns that only the source has to the table, if a clause takes all columns or assigns them by
            name (templated). In ``sql``, write ``WITH SCHEMA EVOLUTION`` instead.
        expect: Data-quality checks on the rows to be written, as Spark SQL (templated); if one fails, nothing is committed.
        dry_run: Plan, match and check, but commit nothing (templated).
        publish: ``"later"`` stages the commit, invisible to readers until ``DeltaPublishOperator`` makes it from the handle in
            the XCom ``delta_staged`` (templated). Default: ``"now"``.
    """

    statement_type = MergeStatement
    template_fields: Sequence[str] = (
        *QueryFileOperator.template_fields,
        *argument_names(statement_type),
        "sql",
        "views",
        "source_version",
    )
    argument_types: ClassVar[Mapping[str, Any]] = {
        **QueryFileOperator.argument_types,
        "schema_evolution": bool,
        "sql": str | None,
    }
    query_fields: ClassVar[Sequence[str]] = ("sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql": "sql"}

    def __init__(
        self,
        *,
        source: str | Source | None = None,
        on: str | None = None,
        clauses: Sequence[Clause] | None = None,
        sql: str | None = None,
        views: Mapping[str, str | TableSource | FileSource] | None = None,
        source_version: int | str | None = None,
        schema_evolution: bool | str = False,
        expect: Sequence[Expectation | str] | Expectation | str = (),
        dry_run: bool | str = False,
        publish: str = "now",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.on = on
        self.clauses = clauses
        self.sql = sql
        self.views = views
        self.source_version = source_version
        self.expect = expect
        self.schema_evolution: Any = schema_evolution
        self.dry_run = dry_run
        self.publish: Any = publish

    def check_arguments(self) -> None:
        """As in every operator; ``sql`` is parsed when the task runs, as loading its parser would slow down DAG parsing."""
        if self.sql is None:
            if self.views:
                raise self.invalid("views go with sql only; a SqlSource has views of its own")
            super().check_arguments()
        elif self.on is not None or self.clauses is not None or self.schema_evolution is not False:
            raise self.invalid("on, clauses and schema_evolution are part of the text of sql; do not pass them beside it")
        elif self.source is None and self.source_version is not None:
            detail = "source_version is that of source; write the version of a view into it: TableSource(uri, version=...)"
            raise self.invalid(detail)

    def statement(self) -> Statement:
        """The statement, made from the rendered arguments."""
        source = None if self.source is None else source_of(self.source, self.source_version)
        if self.sql is not None:
            return self._from_sql(self.sql, source)
        return self._statement(source=source, clauses=UPSERT if self.clauses is None else self.clauses)

    def _from_sql(self, sql: str, source: Source | None) -> MergeStatement:
        """The statement of a ``MERGE INTO`` text."""
        statement: MergeStatement = import_module("airflow_delta.core.sql_text").merge_statement(
            sql,
            table=self.table,
            source=source,
            views=views_of(self.views or {}),
            expect=self.expect,
            dry_run=self.dry_run,
        )
        return replace(statement, publish=self.publish)
