"""Statements that maintain a table and leave its rows unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.fields import convert_fields, exclude_each_other, is_settled
from airflow_delta.core.statements.validation import require_text, texts

CheckpointKindName = Literal["classic", "multi-part", "v2-json", "v2-parquet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeStatement:
    """Rewrite small files into larger ones, or cluster all files so that similar rows share files.

    A table with clustering columns is clustered by them: its new files, and the files of clusters that are still small.

    Attributes:
        table: URI of the table's root.
        where: Spark SQL over partition columns; None is the whole table.
        target_file_size: Size of a rewritten file, in bytes; None takes the table's ``delta.targetFileSize``, or 1 GiB.
        small_file_size: Size in bytes below which a file is rewritten; None rewrites every file below the target. Only without
            clustering and Z-ordering.
        min_files: A partition with fewer files to rewrite than this is skipped.
        dry_run: Plan, but rewrite nothing.
        z_order_by: Columns (paths such as ``a.b``) to Z-order each partition by.
        full: Recluster all files of a table with clustering columns.
    """

    type_name: ClassVar[str] = "optimize"
    table: str
    where: str | None = None
    target_file_size: int | None = None
    small_file_size: int | None = None
    min_files: int = 2
    dry_run: bool = False
    z_order_by: tuple[str, ...] = ()
    full: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("OPTIMIZE", "table", self.table)
        object.__setattr__(self, "z_order_by", texts("OPTIMIZE", "z_order_by", self.z_order_by, may_be_empty=True))
        if self.z_order_by and self.full is True:
            detail = "full applies to clustered tables and cannot be combined with z_order_by"
            raise InvalidStatementError(statement="OPTIMIZE", detail=detail)
        if self.z_order_by and self.small_file_size is not None:
            detail = "z_order_by rewrites all files of a partition, so small_file_size has no effect"
            raise InvalidStatementError(statement="OPTIMIZE", detail=detail)
        for name in ("target_file_size", "small_file_size"):
            size = getattr(self, name)
            if size is not None and is_settled(self, name) and size <= 0:
                raise InvalidStatementError(statement="OPTIMIZE", detail=f"{name} is {size} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorgStatement:
    """Purge deleted data that is still in the files: rows marked by deletion vectors, and dropped columns.

    A VACUUM after the retention then removes it from the storage.

    Attributes:
        table: URI of the table's root.
        where: Spark SQL over partition columns; None is the whole table.
        dry_run: Report what would be rewritten, but rewrite nothing.
    """

    type_name: ClassVar[str] = "reorg"
    table: str
    where: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("REORG", "table", self.table)
        if self.where is not None:
            require_text("REORG", "where", self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumStatement:
    """Delete files that no retained version of the table needs.

    Attributes:
        table: URI of the table's root.
        retention_hours: Hours for which removed files are kept; None takes the table's ``delta.deletedFileRetentionDuration``,
            or a week.
        dry_run: List the files, but delete nothing.
        enforce_retention: Refuse a retention below the table's.
        lite: Consider only files that commits since the last vacuum removed, instead of listing the table.
        inventory: Consider only the files listed in this Parquet file (a URI), with the columns ``path``, ``length``,
            ``isDir``, ``modificationTime``.
    """

    type_name: ClassVar[str] = "vacuum"
    table: str
    retention_hours: float | None = None
    dry_run: bool = True
    enforce_retention: bool = True
    lite: bool = False
    inventory: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("VACUUM", "table", self.table)
        if self.inventory is not None:
            require_text("VACUUM", "inventory", self.inventory)
        exclude_each_other(self, "lite", "inventory")
        if self.retention_hours is not None and is_settled(self, "retention_hours") and self.retention_hours < 0:
            raise InvalidStatementError(statement="VACUUM", detail=f"retention_hours is {self.retention_hours}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatement:
    """Write a checkpoint, so that readers need to read fewer commit files.

    Attributes:
        table: URI of the table's root.
        version: The version to checkpoint; None is the latest.
        kind: The form of the checkpoint: ``classic``, ``multi-part``, ``v2-json`` or ``v2-parquet``; None is the one the table
            requires.
    """

    type_name: ClassVar[str] = "checkpoint"
    table: str
    version: int | None = None
    kind: CheckpointKindName | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("CHECKPOINT", "table", self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactLogStatement:
    """Write a range of commits as one compacted log file, so that readers need fewer requests.

    Attributes:
        table: URI of the table's root.
        start: First commit of the range; None is the first one that neither a checkpoint nor a compacted file covers.
        end: Last commit of the range; None is the latest version.
    """

    type_name: ClassVar[str] = "compact_log"
    table: str
    start: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("COMPACT LOG", "table", self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpLogStatement:
    """Delete expired log files: all before the newest checkpoint that is older than ``delta.logRetentionDuration``.

    Attributes:
        table: URI of the table's root.
        dry_run: List the files, but delete nothing.
    """

    type_name: ClassVar[str] = "clean_up_log"
    table: str
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("CLEAN UP LOG", "table", self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsStatement:
    """Give files the statistics that the table's properties require; their rows are not changed.

    Attributes:
        table: URI of the table's root.
        where: Only files that can hold rows for which this SQL is true; None is all.
        missing_only: Only files without statistics.
        dry_run: Read the files, but commit nothing.
    """

    type_name: ClassVar[str] = "statistics"
    table: str
    where: str | None = None
    missing_only: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("COMPUTE STATS", "table", self.table)
        if self.where is not None:
            require_text("COMPUTE STATS", "where", self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestStatement:
    """Write manifests: lists of the table's files for readers of Hive-partitioned Parquet without Delta support.

    Attributes:
        table: URI of the table's root.
    """

    type_name: ClassVar[str] = "manifest"
    table: str

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("MANIFEST", "table", self.table)
