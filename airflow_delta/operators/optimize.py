"""OPTIMIZE as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import OptimizeStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaOptimizeOperator(DeltaJobOperator):
    """Compact the small files of a Delta table, or cluster its rows; its contents do not change.

    Args:
        table: URI of the table's root (templated).
        where: Condition on partition columns, as Spark SQL (templated). Default: the whole table.
        target_file_size: Size of a rewritten file in bytes (templated). Default: the table's ``delta.targetFileSize``, or 1
            GiB.
        small_file_size: Size in bytes below which a file is rewritten (templated). Default: every file below the target.
        min_files: A partition with fewer files to rewrite is left alone (templated). Default: 2.
        z_order_by: Columns by which the rows of each partition are Z-ordered, so that a filter on any of them reads few files
            (templated). Default: no Z-order; a table with clustering columns is clustered by these.
        full: Recluster all files of a table with clustering columns, not only new files and small clusters (templated).
        dry_run: Plan, but rewrite nothing (templated).
    """

    statement_type = OptimizeStatement
    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self,
        *,
        where: str | None = None,
        target_file_size: int | str | None = None,
        small_file_size: int | str | None = None,
        min_files: int | str = 2,
        z_order_by: Sequence[str] | str = (),
        full: bool | str = False,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.target_file_size = target_file_size
        self.small_file_size = small_file_size
        self.min_files = min_files
        self.z_order_by = z_order_by
        self.full = full
        self.dry_run = dry_run
