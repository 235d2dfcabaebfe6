"""Checkpoints as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import CheckpointStatement
from airflow_delta.operators.arguments import number
from airflow_delta.operators.job import DeltaJobOperator


class DeltaCheckpointOperator(DeltaJobOperator):
    """Write a checkpoint of a Delta table, so that readers need fewer commit files.

    :param table: URI of the table's root (templated).
    :param version: Version to write it of (templated). Default: the latest when the job starts.
    """

    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, "version")
    script = "checkpoint"

    def __init__(self, *, version: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.version = version

    def statement(self) -> CheckpointStatement:
        """What the job is to do, made from the rendered arguments."""
        return CheckpointStatement(table=self.table, version=number("version", self.version))
