"""RESTORE as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import RestoreStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaRestoreOperator(DeltaCoreOperator):
    """Restore a Delta table to an earlier version or timestamp, as one commit; the versions in between stay in its history.

    Args:
        table: URI of the table's root (templated).
        version: The version to restore (templated).
        timestamp: Instead of ``version``, the time to restore: milliseconds since the epoch, or ISO 8601 text (templated).
        ignore_missing_files: Leave out files that no longer exist, instead of failing (templated).
        dry_run: Report which files would be added and removed, but commit nothing (templated).
    """

    statement_type = RestoreStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self,
        *,
        version: int | str | None = None,
        timestamp: int | str | None = None,
        ignore_missing_files: bool | str = False,
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.version = version
        self.timestamp = timestamp
        self.ignore_missing_files = ignore_missing_files
        self.dry_run = dry_run
