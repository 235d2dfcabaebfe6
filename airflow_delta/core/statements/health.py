"""Statements about the whole table: health check and maintenance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.fields import convert_fields, converted_value, is_settled
from airflow_delta.core.statements.maintenance import OptimizeStatement
from airflow_delta.core.statements.validation import require_text, texts

Step = Literal["optimize", "statistics", "vacuum", "checkpoint", "compact_log", "clean_up_log"]

STEPS: tuple[Step, ...] = get_args(Step)
"""The maintenance steps in order: the checkpoint covers the commits of earlier steps, and log cleanup comes last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthStatement:
    """Check the health of a table; nothing is changed.

    Attributes:
        table: URI of the table's root.
        list_files: Whether to check the data files too, by one flat listing of the whole table.
    """

    type_name: ClassVar[str] = "health"
    table: str
    list_files: bool = True

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("HEALTH", "table", self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceStatement:
    """Run the maintenance steps that are due on a table, and no other steps.

    Attributes:
        table: URI of the table's root.
        steps: Which of ``STEPS`` may run; they always run in the order of ``STEPS``.
        where: Spark SQL over partition columns that limits the search for small files; None is the whole table.
        target_file_size: Size of a rewritten file, in bytes; None takes the table's ``delta.targetFileSize``, or 1 GiB.
        small_file_size: Size in bytes below which a file counts as small; capped at half of the target size.
        min_small_files: Number of small files in a partition from which on an OPTIMIZE of that partition is due.
        max_commits: A checkpoint is due after more commits than this; None takes the table's ``delta.checkpointInterval``.
        max_uncompacted_commits: A log compaction is due after more commits than this that neither a checkpoint nor a compacted
            file covers.
        retention_hours: Hours for which vacuum keeps removed files; None takes the table's
            ``delta.deletedFileRetentionDuration``, or a week. Values below that are refused.
        dry_run: Report what is due and why, but do nothing.
    """

    type_name: ClassVar[str] = "maintenance"
    table: str
    steps: tuple[Step, ...] = STEPS
    where: str | None = None
    target_file_size: int | None = None
    small_file_size: int = 16 << 20
    min_small_files: int = 10
    max_commits: int | None = None
    max_uncompacted_commits: int = 50
    retention_hours: float | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("MAINTENANCE", "table", self.table)
        steps = texts("MAINTENANCE", "steps", self.steps, may_be_empty=True)
        object.__setattr__(self, "steps", tuple(converted_value("MAINTENANCE", "a step", step, Step) for step in steps))
        least = {"min_small_files": 2, "max_commits": 0, "max_uncompacted_commits": 1, "retention_hours": 0}
        for name, limit in least.items():
            value = getattr(self, name)
            if value is not None and is_settled(self, name) and not value >= limit:
                raise InvalidStatementError(statement="MAINTENANCE", detail=f"{name} must be {limit} or more, found {value}")
        self.optimize()  # raises for impossible sizes

    def optimize(self) -> OptimizeStatement:
        """The statement of the step ``optimize``."""
        return OptimizeStatement(
            table=self.table,
            where=self.where,
            target_file_size=self.target_file_size,
            small_file_size=self.small_file_size,
            min_files=self.min_small_files,
        )
