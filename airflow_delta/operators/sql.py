"""The result of a query as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_delta.core.statements import FileSource, Source, SqlSource, TableSource
from airflow_delta.operators.arguments import views_of
from airflow_delta.operators.written_rows import DeltaWrittenRowsOperator


class DeltaSqlOperator(DeltaWrittenRowsOperator):
    """Write the result of a Spark SQL query into a Delta table, as one commit; the first write makes the table.

    Takes ``mode``, ``replace_where``, ``partition_by``, ``cluster_by``, ``merge_schema``, ``overwrite_schema``, ``expect``,
    ``properties``, ``txn``, ``user_metadata``, ``dry_run`` and ``publish`` too, as ``DeltaWrittenRowsOperator`` describes them.

    Args:
        table: URI of the table's root (templated).
        query: One SELECT over the views; a path that ends in ``.sql`` is read from the DAG's folder (templated).
        views: View name to a source value, or to the URI of a Delta table (templated).
    """

    template_fields: Sequence[str] = (*DeltaWrittenRowsOperator.template_fields, "query", "views")
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql"}

    def __init__(self, *, query: str, views: Mapping[str, str | TableSource | FileSource], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.query = query
        self.views = views

    def rows(self) -> Source:
        """The query over its views; a text among these is a Delta table."""
        return SqlSource(self.query, views=views_of(self.views))
