"""Recomputing file statistics as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import StatisticsStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaRecomputeStatisticsOperator(DeltaCoreOperator):
    """Compute the file statistics that the properties of a Delta table require, so that readers skip more files.

    Args:
        table: URI of the table's root (templated).
        where: Condition, as Spark SQL: only files that can hold matching rows are read (templated). Default: all files.
        missing_only: Only files without statistics (templated).
        dry_run: Read the files, but commit nothing (templated).
    """

    statement_type = StatisticsStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self, *, where: str | None = None, missing_only: bool | str = False, dry_run: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.missing_only = missing_only
        self.dry_run = dry_run
