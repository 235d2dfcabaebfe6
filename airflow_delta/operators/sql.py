"""The result of a query as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from airflow_delta.core.statements import Expectation, FileSource, SqlSource, TableSource, WriteStatement
from airflow_delta.operators.job import DeltaJobOperator


class DeltaSqlOperator(DeltaJobOperator):
    """Write the result of a Spark SQL query into a Delta table, as one commit; the first write makes the table.

    :param table: URI of the table's root (templated).
    :param query: One SELECT over the views; a path that ends in ``.sql`` is read from the DAG's folder (templated).
    :param views: View name to a source value, or to the URI of a Delta table (templated).
    :param mode: ``append``, ``overwrite`` or ``replace_where`` (templated).
    :param replace_where: Spark SQL over partition columns: the rows that are replaced; every written row must fulfil it
        (templated). Only with the mode ``replace_where``.
    :param partition_by: Partition columns when the table is made.
    :param expect: Checks on the rows to be written, as Spark SQL (templated); one that fails keeps the commit from happening.
    :param properties: Table properties when the table is made.
    :param dry_run: Check, but commit nothing.
    """

    template_fields: Sequence[str] = (
        *DeltaJobOperator.template_fields,
        "query",
        "views",
        "mode",
        "replace_where",
        "expect",
    )
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql"}
    script = "write"

    def __init__(
        self,
        *,
        query: str,
        views: Mapping[str, str | TableSource | FileSource],
        mode: str = "append",
        replace_where: str | None = None,
        partition_by: Sequence[str] = (),
        expect: Sequence[Expectation | str] | Expectation | str = (),
        properties: Mapping[str, str] = MappingProxyType({}),
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.query = query
        self.views = views
        self.mode = mode
        self.replace_where = replace_where
        self.partition_by = partition_by
        self.expect = expect
        self.properties = properties
        self._dry_run = dry_run

    def statement(self) -> WriteStatement:
        """What the job is to do, made from the rendered arguments."""
        views = {name: TableSource(view) if isinstance(view, str) else view for name, view in self.views.items()}
        return WriteStatement(
            table=self.table,
            source=SqlSource(self.query, views=views),
            mode=self.mode,  # type: ignore[arg-type]  # the text becomes a mode
            replace_where=self.replace_where,
            partition_by=self.partition_by,  # type: ignore[arg-type]  # any sequence becomes a tuple
            expect=self.expect,  # type: ignore[arg-type]  # texts become expectations
            properties=self.properties,
            dry_run=self._dry_run,
        )
