"""RESTORE: restores a table to an earlier version or time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_delta.core.statements.fields import Time, convert_fields, is_settled
from airflow_delta.core.statements.validation import require_point, require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStatement:
    """Restore a table to an earlier version or time, in one commit; the versions in between stay in its history.

    Attributes:
        table: URI of the table's root.
        version: The version to restore.
        timestamp: Or its time: milliseconds since the epoch, or ISO 8601 text.
        ignore_missing_files: Leave out files that no longer exist, instead of failing.
        dry_run: Report which files would be added and removed, but commit nothing.
    """

    type_name: ClassVar[str] = "restore"
    table: str
    version: int | None = None
    timestamp: Time | None = None
    ignore_missing_files: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("RESTORE", "table", self.table)
        if is_settled(self, "version", "timestamp"):
            require_point("RESTORE", self.version, self.timestamp)
