"""COPY INTO: load the files below a path that were not loaded before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.fields import convert_fields, exclude_each_other, is_settled
from airflow_delta.core.statements.publish import Publish
from airflow_delta.core.statements.validation import expectations, require_mapping, require_text, texts
from airflow_delta.core.user_metadata import check_user_metadata

TEXT_FORMATS = frozenset({"csv", "json", "xml"})
"""Formats in which a row may not fit the columns that it is read as."""

_FILTERS = {"pathglobfilter": "pattern", "modifiedbefore": "min_age", "modifiedafter": "pattern or a narrower path"}
"""Reader options of Spark (in lower case) that would skip files it is given, and the field to use instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyIntoStatement:
    """Append the rows of the files below a path, each file once, in one commit; the first load creates the table.

    A file is identified by its path: one that has changed since it was loaded is not loaded again, only counted. Files of 0
    bytes are ignored, and so are files whose name, or that of a folder above, begins with ``_`` or a dot.

    Attributes:
        table: URI of the table's root.
        path: URI of the folder with the files; it must not overlap the table.
        format: Spark's name of the format: ``csv``, ``json``, ``parquet``, or ``avro`` if its package is installed in Spark.
        pattern: Glob of the files below the path, such as ``2026-*/**/*.csv``; without a slash it matches file names in every
            folder. None is every file.
        options: Options of Spark's reader.
        schema: Columns as Spark DDL; None lets Spark infer them from the files of each load. For CSV all are strings then,
            unless the option ``inferSchema`` is set.
        select: Spark SQL expressions over the rows of the files, such as ``*`` and ``_metadata.file_path AS file``; empty means
            ``*``.
        rescued_column: Name of a string column for rows that do not fit the columns: it holds the whole row, and the columns
            hold those values that could be read. None fails the load at the first such row. CSV, JSON and XML only.
        merge_schema: Whether to add columns to the table, at any depth, that only the rows have.
        partition_by: Partition columns, if the load creates the table.
        cluster_by: Clustering columns, if the load creates the table; not together with partition columns.
        properties: Table properties, if the load creates the table.
        expect: Checks on the rows to be written.
        max_files: Most files in one load, oldest first (with ``look_back`` in the order of paths); the next load takes the
            following ones.
        max_bytes: Most bytes in one load, in the same order; at least one file is loaded.
        min_age: Seconds that must have passed since a file's last modification before it is loaded, for writers whose files are
            visible before they are complete.
        look_back: For files whose paths sort by the time they arrive, such as ``2026/11/23/...``: how many of the last loaded
            files to list again, to find files that arrived late. Paths that sort before those are not listed; paths that sort
            after a file that must wait, wait too. None lists everything.
        reload: Whether to load files again that were loaded before.
        user_metadata: Text for people, stored in the commit; at most 100,000 characters.
        dry_run: Read and check the files, but commit nothing.
        publish: ``later`` stages the commit, and a ``PublishStatement`` makes it. Until then other loads see the files as new;
            once another load has committed, the staged one can no longer be published.
        publish: ``later`` stages the commit: ``PublishStatement`` makes it. Until then the files are new to other loads, and
            once another load is committed, it can no longer be published.
    """

    type_name: ClassVar[str] = "copy_into"
    table: str
    path: str
    format: str
    pattern: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    select: tuple[str, ...] = ()
    rescued_column: str | None = None
    merge_schema: bool = False
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[Expectation, ...] = ()
    max_files: int | None = None
    max_bytes: int | None = None
    min_age: float = 0
    look_back: int | None = None
    reload: bool = False
    user_metadata: str | None = None
    dry_run: bool = False
    publish: Publish = "now"

    def __post_init__(self) -> None:
        convert_fields(self)
        for name in ("table", "path", "format"):
            require_text("COPY INTO", name, getattr(self, name))
        for name in ("pattern", "schema", "rescued_column"):
            if getattr(self, name) is not None:
                require_text("COPY INTO", name, getattr(self, name))
        for name in ("select", "partition_by", "cluster_by"):
            object.__setattr__(self, name, texts("COPY INTO", name, getattr(self, name), may_be_empty=True))
        for name in ("options", "properties"):
            require_mapping("COPY INTO", name, getattr(self, name))
        _check_reads_all(self.options)
        check_user_metadata("COPY INTO", self.user_metadata)
        exclude_each_other(self, "partition_by", "cluster_by")
        exclude_each_other(self, "look_back", "reload")
        for name in ("max_files", "max_bytes", "look_back"):
            number = getattr(self, name)
            if number is not None and is_settled(self, name) and number < 1:
                raise InvalidStatementError(statement="COPY INTO", detail=f"{name} must be at least 1, found {number}")
        if is_settled(self, "min_age") and self.min_age < 0:
            raise InvalidStatementError(statement="COPY INTO", detail=f"min_age must not be negative, found {self.min_age}")
        is_text = self.format.lower() in TEXT_FORMATS or "{" in self.format
        if self.rescued_column is not None and not is_text:
            detail = f"rescued_column goes with the formats {', '.join(sorted(TEXT_FORMATS))}, not with {self.format}"
            raise InvalidStatementError(statement="COPY INTO", detail=detail)
        object.__setattr__(self, "expect", expectations("COPY INTO", self.expect))


def _check_reads_all(options: Mapping[str, str]) -> None:
    """Raise ``InvalidStatementError`` if an option would make Spark's reader skip files that it is given."""
    for option in options:
        if instead := _FILTERS.get(option.lower()):
            detail = f"with the option {option} Spark leaves out files that then count as loaded; take {instead}"
            raise InvalidStatementError(statement="COPY INTO", detail=detail)
