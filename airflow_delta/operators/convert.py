"""CONVERT TO DELTA as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import ConvertStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaConvertOperator(DeltaCoreOperator):
    """Convert a directory of Parquet files to a Delta table, in place; do nothing if it already is a Delta table.

    Args:
        table: URI of the directory (templated).
        partition_by: The partition columns with their types, in the order of the directories, such as ``{"day": "DATE"}`` or
            ``"day DATE"`` (templated).
        infer_partitions: Take the partition columns from the directories instead, all as strings (templated).
        statistics: Whether to take column statistics from the footers of the Parquet files (templated).
        properties: Table properties (templated).
        dry_run: Check all files, but commit nothing (templated).
    """

    statement_type = ConvertStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self,
        *,
        partition_by: str | Mapping[str, str] | None = None,
        infer_partitions: bool | str = False,
        statistics: bool | str = True,
        properties: Mapping[str, str] = {},
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.partition_by = partition_by
        self.infer_partitions = infer_partitions
        self.statistics = statistics
        self.properties = properties
        self.dry_run = dry_run
