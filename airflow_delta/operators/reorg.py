"""REORG as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import ReorgStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaReorgOperator(DeltaJobOperator):
    """Purge deleted rows (of deletion vectors) and dropped columns from a Delta table's files; its contents do not change.

    A vacuum after the retention period deletes the old files.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated).
        where: Condition on partition columns, as Spark SQL (templated). Default: the whole table.
        dry_run: Plan, but rewrite nothing (templated).
    """

    statement_type = ReorgStatement
    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, *argument_names(statement_type))

    def __init__(self, *, where: str | None = None, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.dry_run = dry_run
