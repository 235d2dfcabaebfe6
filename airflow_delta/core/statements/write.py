"""WRITE: append, overwrite, replace a range, or create or replace a table with the rows of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.fields import convert_fields, converted_value, exclude_each_other, is_settled, is_template
from airflow_delta.core.statements.publish import Publish
from airflow_delta.core.statements.sources import Source
from airflow_delta.core.statements.validation import expectations, require_mapping, require_text, require_type, texts
from airflow_delta.core.user_metadata import check_user_metadata


class WriteMode(StrEnum):
    """What happens to existing rows.

    ``CREATE`` fails if the table exists. ``CREATE_OR_REPLACE`` replaces it: columns, partitioning, clustering and properties
    are those of the statement, and only the history is kept. ``DYNAMIC_OVERWRITE`` replaces the rows of those partitions that
    receive new rows; without partition columns, all rows.
    """

    APPEND = "append"
    OVERWRITE = "overwrite"
    REPLACE_WHERE = "replace_where"
    DYNAMIC_OVERWRITE = "dynamic_overwrite"
    CREATE = "create"
    CREATE_OR_REPLACE = "create_or_replace"


_MADE_ANEW = (WriteMode.CREATE, WriteMode.CREATE_OR_REPLACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatement:
    """Write the rows of a source, in one commit; the first write creates the table.

    Attributes:
        table: URI of the table's root.
        source: The rows.
        mode: What happens to existing rows.
        replace_where: Spark SQL over the table's columns: the rows to replace; every written row must satisfy it. If it uses
            only partition columns, no existing file is read.
        partition_by: Partition columns of a new table; for an existing table either empty or equal to its own.
        cluster_by: Paths of clustering columns, likewise; not together with partition columns.
        merge_schema: Whether to add columns to the table, at any depth, that only the rows have; types are widened if the table
            allows it.
        overwrite_schema: Whether the table takes the columns and the partitioning of the rows; only with the mode
            ``overwrite``.
        by_position: Whether to match columns by position rather than by name, as SQL's INSERT INTO does; also inside structs.
            The table must exist, and the rows must have as many columns; with ``merge_schema`` they may have more, which keep
            their names.
        expect: Checks on the rows to be written.
        properties: Table properties, if the write creates the table.
        txn: Application id and version, an ever growing number: a write commits nothing if its number is not greater than the
            last one that the table has recorded for that application.
        user_metadata: Text for people, stored in the commit; at most 100,000 characters.
        dry_run: Check, but commit nothing.
        publish: ``later`` stages the commit, and a ``PublishStatement`` makes it; until then no reader sees its rows.
    """

    type_name: ClassVar[str] = "write"
    table: str
    source: Source
    mode: WriteMode = WriteMode.APPEND
    replace_where: str | None = None
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    merge_schema: bool = False
    overwrite_schema: bool = False
    by_position: bool = False
    expect: tuple[Expectation, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    dry_run: bool = False
    publish: Publish = "now"

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("WRITE", "table", self.table)
        require_type("WRITE", "source", self.source, Source)
        if self.mode is WriteMode.REPLACE_WHERE:
            require_text("WRITE", "replace_where", self.replace_where)
        for name in ("partition_by", "cluster_by"):
            object.__setattr__(self, name, texts("WRITE", name, getattr(self, name), may_be_empty=True))
        exclude_each_other(self, "merge_schema", "overwrite_schema")
        exclude_each_other(self, "by_position", "overwrite_schema")
        exclude_each_other(self, "partition_by", "cluster_by")
        for name, is_wrong in (
            ("replace_where", self.mode is not WriteMode.REPLACE_WHERE and self.replace_where is not None),
            ("overwrite_schema", self.mode is not WriteMode.OVERWRITE and self.overwrite_schema),
            ("merge_schema", self.mode in _MADE_ANEW and self.merge_schema),
            ("by_position", self.mode in _MADE_ANEW and self.by_position),
        ):
            if is_wrong and is_settled(self, "mode", name):
                raise InvalidStatementError(statement="WRITE", detail=f"{name} cannot be combined with the mode {self.mode}")
        object.__setattr__(self, "expect", expectations("WRITE", self.expect))
        require_mapping("WRITE", "properties", self.properties)
        check_user_metadata("WRITE", self.user_metadata)
        object.__setattr__(self, "txn", _txn(self.txn))


def _txn(given: Any) -> tuple[str, int] | None:
    """The application id and its version; a rendered template may give the version as text."""
    if given is None or is_template(given):
        return given
    app_id, version = given if isinstance(given, tuple | list) and len(given) == 2 else (None, -1)  # noqa: PLR2004
    version = converted_value("WRITE", "the number of txn", version, int)
    if not isinstance(app_id, str) or not app_id.strip() or (not is_template(version) and version < 0):
        detail = f"txn must be an application id and a version from 0, found {given!r}"
        raise InvalidStatementError(statement="WRITE", detail=detail)
    return app_id, version
