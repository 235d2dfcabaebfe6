"""Checkpoints as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import CheckpointStatement
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaCheckpointOperator(DeltaCoreOperator):
    """Write a checkpoint of a Delta table, so that readers need fewer commit files.

    :param table: URI of the table's root (templated).
    :param version: Version to write it of (templated). Default: the latest when the work starts.
    :param kind: ``classic``, ``multi-part``, ``v2-json`` or ``v2-parquet`` (templated). Default: by the table's properties.
    """

    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, "version", "kind")
    script = "checkpoint"

    def __init__(self, *, version: int | str | None = None, kind: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.version = version
        self.kind = kind

    def statement(self) -> CheckpointStatement:
        """What the job is to do, made from the rendered arguments."""
        return CheckpointStatement(table=self.table, version=self.version, kind=self.kind)  # type: ignore[arg-type]  # a text becomes a word
