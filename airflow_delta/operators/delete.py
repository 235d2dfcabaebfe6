"""DELETE as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import DeleteStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaDeleteOperator(DeltaJobOperator):
    """Delete rows of a Delta table, as one commit. A condition on partition columns alone opens no file.

    Args:
        table: URI of the table's root, or its name below the table root of the connection (templated).
        where: Which rows: Spark SQL over the table's columns (templated). Default: all.
        dry_run: Count, but commit nothing (templated).
        publish: ``"later"`` stages the commit, to be made by ``DeltaPublishOperator``: its handle is the XCom ``delta_staged``,
            and nobody sees it before (templated). Default: ``"now"``.
    """

    statement_type = DeleteStatement
    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, *argument_names(statement_type))

    def __init__(self, *, where: str | None = None, dry_run: bool | str = False, publish: str = "now", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.dry_run = dry_run
        self.publish: Any = publish
