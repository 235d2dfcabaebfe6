"""Checkpoints as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import CheckpointStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaCheckpointOperator(DeltaCoreOperator):
    """Write a checkpoint of a Delta table, so that readers need fewer commit files.

    Args:
        table: URI of the table's root (templated).
        version: Version to checkpoint (templated). Default: the latest when the work starts.
        kind: ``classic``, ``multi-part``, ``v2-json`` or ``v2-parquet`` (templated). Default: by the table's properties.
    """

    statement_type = CheckpointStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(self, *, version: int | str | None = None, kind: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.version = version
        self.kind = kind
