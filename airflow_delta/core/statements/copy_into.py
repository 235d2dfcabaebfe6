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
"""Formats whose rows may fail to fit the columns they are read as."""

_FILTERS = {"pathglobfilter": "pattern", "modifiedbefore": "min_age", "modifiedafter": "pattern or a narrower path"}
"""Options of Spark's reader by which it leaves out files that it is told to read, in lower case, and what does it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyIntoStatement:
    """Append the rows of the files below a path, each file once, as one commit; the first load creates the table.

    A file is known by its path: one that has changed since it was loaded is not loaded again, but counted. Files whose name, or
    that of a folder above, begins with ``_`` or a dot are not looked at, and neither are those of 0 bytes.

    Attributes:
        table: URI of the table's root.
        path: URI of the folder with the files; it must not overlap the table.
        format: Spark's name of the format: ``csv``, ``json``, ``parquet``, or ``avro`` where Spark has its package.
        pattern: Glob of the files below the path, such as ``2026-*/**/*.csv``; without a slash it is that of their names, in
            any folder. None is every file.
        options: The reader's options.
        schema: Columns as Spark DDL; None lets Spark infer them from the files of each load: of CSV all as texts, without
            the option ``inferSchema``.
        select: Spark SQL expressions over the rows of the files, such as ``*`` and ``_metadata.file_path AS file``; empty is
            ``*``.
        rescued_column: Name of a text column for rows that do not fit the columns: it holds the whole row, and those of its
            values that can be read stay in theirs. None fails the load at the first such row. Of CSV, JSON and XML only.
        merge_schema: Whether columns that only the rows have are added to the table, at any depth.
        partition_by: Partition columns when the table is made.
        cluster_by: Clustering columns when the table is made; not together with partition columns.
        properties: Table properties when the table is made.
        expect: Checks on the rows to be written.
        max_files: Most files of one load, oldest first (with ``look_back`` by path); the next load takes the next ones.
        max_bytes: Most bytes of one load, likewise; at least one file.
        min_age: Seconds since its last change before a file is loaded, where writers are not done when it can be seen.
        look_back: Of files whose paths ascend with the time they come, such as ``2026/11/23/...``: how many of the last loaded
            ones are listed again, to find those that came late. What sorts before them is not listed; what sorts behind a file
            that waits, waits too. None lists everything.
        reload: Whether to load the files again that were loaded before.
        user_metadata: Text that the commit carries for people; at most 100,000 characters.
        dry_run: Read and check the files, but commit nothing.
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
    """Raise ``InvalidStatementError`` if Spark's reader would not read all files that it is told to read."""
    for option in options:
        if instead := _FILTERS.get(option.lower()):
            detail = f"with the option {option} Spark leaves out files that then count as loaded; take {instead}"
            raise InvalidStatementError(statement="COPY INTO", detail=detail)
