"""Compaction as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import OptimizeStatement
from airflow_delta.operators.arguments import number
from airflow_delta.operators.job import DeltaJobOperator


class DeltaOptimizeOperator(DeltaJobOperator):
    """Rewrite the small files of a Delta table into larger ones; its rows stay as they are.

    :param table: URI of the table's root (templated).
    :param where: Spark SQL over partition columns (templated). Default: the whole table.
    :param target_file_size: Bytes of a rewritten file (templated). Default: the table's ``delta.targetFileSize``, or 1 GiB.
    :param dry_run: Plan, but rewrite nothing.
    """

    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, "where", "target_file_size")
    script = "optimize"

    def __init__(
        self,
        *,
        where: str | None = None,
        target_file_size: int | str | None = None,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.target_file_size = target_file_size
        self._dry_run = dry_run

    def statement(self) -> OptimizeStatement:
        """What the job is to do, made from the rendered arguments."""
        return OptimizeStatement(
            table=self.table,
            where=self.where,
            target_file_size=number("target_file_size", self.target_file_size),
            dry_run=self._dry_run,
        )
