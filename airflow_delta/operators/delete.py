"""DELETE as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import DeleteStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaDeleteOperator(DeltaJobOperator):
    """Delete rows of a Delta table, as one commit. With a condition on partition columns only, no data file is read.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated).
        where: Condition on the rows to delete: Spark SQL over the table's columns (templated). Default: all rows.
        dry_run: Count the rows, but commit nothing (templated).
        publish: ``"later"`` stages the commit, invisible to readers until ``DeltaPublishOperator`` makes it from the handle in
            the XCom ``delta_staged`` (templated). Default: ``"now"``.
    """

    statement_type = DeleteStatement
    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, *argument_names(statement_type))

    def __init__(self, *, where: str | None = None, dry_run: bool | str = False, publish: str = "now", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.dry_run = dry_run
        self.publish: Any = publish
