"""Queries in ``.sql`` files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from airflow.sdk import Context
from jinja2 import TemplateNotFound

from airflow_delta.core.statements import SqlSource
from airflow_delta.core.statements.json_form import is_statement_value, map_queries
from airflow_delta.operators.job import DeltaJobOperator

_ENDING = ".sql"


class QueryFileOperator(DeltaJobOperator):
    """Base of operators whose queries may be given as paths of ``.sql`` files in the DAG's folder.

    Airflow's ``template_ext`` would do that for all arguments, so that neither ``files`` nor ``table`` could end in ``.sql``.
    """

    query_fields: ClassVar[Sequence[str]]
    """Names of the arguments that hold a query."""

    def resolve_template_files(self) -> None:
        """Read the files when the DAG is parsed, as Airflow does; a missing file fails the task when it runs."""
        super().resolve_template_files()
        for name in self.query_fields:
            try:
                setattr(self, name, self._from_file(getattr(self, name), self.get_template_env()))
            except TemplateNotFound:
                self.log.exception("There is no such file for %s", name)

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render as every operator does; of a query in a file, the file's content is rendered."""
        environment = jinja_env or self.get_template_env()
        if is_statement_value(content):
            content = map_queries(content, lambda source: self._with_query(source, environment))
        elif any(content is getattr(self, name) for name in self.query_fields):
            content = self._from_file(content, environment)
        return super().render_template(content, context, environment, seen_oids)

    def _with_query(self, source: SqlSource, environment: Any) -> SqlSource:
        return replace(source, query=self._from_file(source.query, environment))

    def _from_file(self, query: Any, environment: Any) -> Any:
        """The file's content if the query is the path of a file, else the query. Raises ``TemplateNotFound``."""
        is_path = isinstance(query, str) and query.endswith(_ENDING)
        return environment.loader.get_source(environment, query)[0] if is_path else query
