"""REORG as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import ReorgStatement
from airflow_delta.operators.job import DeltaJobOperator


class DeltaReorgOperator(DeltaJobOperator):
    """Purge deleted rows (of deletion vectors) and dropped columns from the files of a Delta table. No row changes.

    A vacuum after the retention removes the old files.

    :param table: URI of the table's root, or its name below the table root of the connection (templated).
    :param where: Spark SQL over partition columns (templated). Default: the whole table.
    :param dry_run: Plan, but rewrite nothing (templated).
    """

    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, "where", "dry_run")
    script = "reorg"

    def __init__(self, *, where: str | None = None, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.dry_run = dry_run

    def statement(self) -> ReorgStatement:
        """What the job is to do, made from the rendered arguments."""
        return ReorgStatement(table=self.table, where=self.where, dry_run=self.dry_run)
