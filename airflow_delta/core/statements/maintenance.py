"""Statements that rearrange or tidy a table and leave its rows as they are."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.validation import require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeStatement:
    """Rewrite small files into larger ones.

    Attributes:
        table: URI of the table's root.
        where: Spark SQL over partition columns; None is the whole table.
        target_file_size: Bytes of a rewritten file; None takes the table's ``delta.targetFileSize``, or 1 GiB.
        dry_run: Plan, but rewrite nothing.
    """

    table: str
    where: str | None = None
    target_file_size: int | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        require_text("OPTIMIZE", "table", self.table)
        if self.target_file_size is not None and self.target_file_size <= 0:
            raise InvalidStatementError(statement="OPTIMIZE", detail=f"target_file_size is {self.target_file_size} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumStatement:
    """Delete files that no retained version of the table needs.

    Attributes:
        table: URI of the table's root.
        retention_hours: Keep files removed in the last so many hours; None takes the table's
            ``delta.deletedFileRetentionDuration``, or a week.
        dry_run: List, but delete nothing.
        enforce_retention: Refuse a retention below the table's.
    """

    table: str
    retention_hours: float | None = None
    dry_run: bool = True
    enforce_retention: bool = True

    def __post_init__(self) -> None:
        require_text("VACUUM", "table", self.table)
        if self.retention_hours is not None and self.retention_hours < 0:
            raise InvalidStatementError(statement="VACUUM", detail=f"retention_hours is {self.retention_hours}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatement:
    """Write a checkpoint, so that readers need fewer commit files.

    Attributes:
        table: URI of the table's root.
        version: Version to write it of; None is the latest.
    """

    table: str
    version: int | None = None

    def __post_init__(self) -> None:
        require_text("CHECKPOINT", "table", self.table)
