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

    ``CREATE`` fails where there is a table. ``CREATE_OR_REPLACE`` puts a new one in its place: columns, partitioning,
    clustering and properties are those of the statement, and only the history stays. ``DYNAMIC_OVERWRITE`` drops the rows of
    those partitions that new rows come into; of a table without partitions, all.
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
    """Write the rows of a source, as one commit; the first write creates the table.

    Attributes:
        table: URI of the table's root.
        source: The rows.
        mode: What happens to the rows that are there.
        replace_where: Spark SQL over the table's columns: the rows that are replaced; every written row must fulfil it. Where
            partition columns alone decide it, no file is opened.
        partition_by: Partition columns when the table is made; must equal the table's where it exists, or be empty.
        cluster_by: Paths of clustering columns, likewise; not together with partition columns.
        merge_schema: Whether columns that only the rows have are added to the table, at any depth; types get wider where the
            table lets them.
        overwrite_schema: Whether the table gets the columns and the partitioning of the rows; only with the mode ``overwrite``.
        by_position: Whether the first column of the rows is the table's first, and so on, whatever they are called: as INSERT
            INTO of SQL has it; likewise the members of structs. There must be a table, and as many columns as it has; with
            ``merge_schema`` there may be more, which keep their names.
        expect: Checks on the rows to be written.
        properties: Table properties when the table is made.
        txn: Name of an application and a number of its own that grows with each of its writes: a write whose number is not
            greater than the table's last one for that application commits nothing.
        user_metadata: Text that the commit carries for people; at most 100,000 characters.
        dry_run: Check, but commit nothing.
        publish: ``later`` stages the commit: ``PublishStatement`` makes it, and nobody sees its rows before.
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
    """The application and its number, which a rendered template gives as text."""
    if given is None or is_template(given):
        return given
    app_id, version = given if isinstance(given, tuple | list) and len(given) == 2 else (None, -1)  # noqa: PLR2004
    version = converted_value("WRITE", "the number of txn", version, int)
    if not isinstance(app_id, str) or not app_id.strip() or (not is_template(version) and version < 0):
        detail = f"txn must be an application id and a version from 0, found {given!r}"
        raise InvalidStatementError(statement="WRITE", detail=detail)
    return app_id, version
