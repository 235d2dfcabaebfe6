"""Statements that create a table without writing rows: CREATE, CLONE, CONVERT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from airflow_delta.core.statements.columns import Columns, columns_text
from airflow_delta.core.statements.fields import convert_fields, exclude_each_other
from airflow_delta.core.statements.sources import TableSource
from airflow_delta.core.statements.validation import require_mapping, require_text, require_type, texts

CreateMode = Literal["error", "ignore", "replace"]
"""What to do if the table exists: ``error`` fails, ``ignore`` leaves it unchanged, ``replace`` replaces it, keeping history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStatement:
    """Create an empty table.

    Attributes:
        table: URI of the table's root.
        columns: Columns as Spark DDL: names, types and clauses such as ``NOT NULL``, ``DEFAULT 0``, ``COMMENT 'text'``,
            ``GENERATED ALWAYS AS (CAST(at AS DATE))``, ``GENERATED ALWAYS AS IDENTITY (START WITH 1 INCREMENT BY 1)``.
        partition_by: Names of partition columns.
        cluster_by: Paths of clustering columns, at most four; not together with partition columns.
        properties: Table properties.
        constraints: CHECK constraints: condition by name.
        comment: The table's description.
        mode: What to do if the table exists.
        dry_run: Check, but commit nothing.
    """

    type_name: ClassVar[str] = "create"
    table: str
    columns: Columns
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    mode: CreateMode = "error"
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("CREATE", "table", self.table)
        object.__setattr__(self, "columns", columns_text("CREATE", self.columns))
        for name in ("partition_by", "cluster_by"):
            object.__setattr__(self, name, texts("CREATE", name, getattr(self, name), may_be_empty=True))
        exclude_each_other(self, "partition_by", "cluster_by")
        require_mapping("CREATE", "properties", self.properties)
        require_mapping("CREATE", "constraints", self.constraints)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneStatement:
    """Create a new table on the files of another table, or, with ``deep``, on copies of them.

    Attributes:
        table: URI of the new table's root.
        source: The table to clone, and its version.
        deep: Whether to copy the files, so that the new table does not depend on the source; otherwise both share them.
        mode: What to do if the table exists; without ``deep`` only an empty table can be replaced.
        properties: Table properties that override the source's.
        dry_run: Check, but commit nothing.
    """

    type_name: ClassVar[str] = "clone"
    table: str
    source: TableSource
    deep: bool = False
    mode: CreateMode = "error"
    properties: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("CLONE", "table", self.table)
        require_type("CLONE", "source", self.source, TableSource)
        require_mapping("CLONE", "properties", self.properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertStatement:
    """Convert a directory of Parquet files to a Delta table, in place; do nothing if it is a table already.

    Attributes:
        table: URI of the directory.
        partition_by: The partition columns with their types, in the order of the directory levels; None for no partitioning.
        infer_partitions: Take the partition columns from the directory names instead, all as strings.
        statistics: Whether to take statistics from the Parquet footers.
        properties: Table properties.
        dry_run: Check all files, but commit nothing.
    """

    type_name: ClassVar[str] = "convert"
    table: str
    partition_by: Columns | None = None
    infer_partitions: bool = False
    statistics: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("CONVERT", "table", self.table)
        if self.partition_by is not None:
            object.__setattr__(self, "partition_by", columns_text("CONVERT", self.partition_by))
        exclude_each_other(self, "partition_by", "infer_partitions")
        require_mapping("CONVERT", "properties", self.properties)
