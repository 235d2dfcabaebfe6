"""Writing a source's rows into a table: append, overwrite, replace a range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.sources import Source
from airflow_delta.core.statements.validation import expectations, require_text, require_type


class WriteMode(StrEnum):
    """What happens to the rows that are there."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    REPLACE_WHERE = "replace_where"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatement:
    """Write the rows of a source, as one commit; the first write makes the table.

    Attributes:
        table: URI of the table's root.
        source: The rows.
        mode: Keep the rows that are there, drop them all, or drop those of ``replace_where``.
        replace_where: Spark SQL over the table's partition columns; every written row must fulfil it.
        partition_by: Partition columns when the table is made; must equal the table's where it exists, or be empty.
        expect: Checks on the rows to be written.
        properties: Table properties when the table is made.
        dry_run: Check, but commit nothing.
    """

    table: str
    source: Source
    mode: WriteMode = WriteMode.APPEND
    replace_where: str | None = None
    partition_by: tuple[str, ...] = ()
    expect: tuple[Expectation, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        require_text("WRITE", "table", self.table)
        require_type("WRITE", "source", self.source, Source)
        object.__setattr__(self, "mode", _mode(self.mode))
        if self.mode is WriteMode.REPLACE_WHERE:
            require_text("WRITE", "replace_where", self.replace_where)
        elif self.replace_where is not None:
            raise InvalidStatementError(statement="WRITE", detail=f"replace_where does not go with the mode {self.mode}")
        partition_by = (self.partition_by,) if isinstance(self.partition_by, str) else tuple(self.partition_by)
        object.__setattr__(self, "partition_by", partition_by)
        object.__setattr__(self, "expect", expectations("WRITE", self.expect))


def _mode(text: str) -> WriteMode:
    try:
        return WriteMode(text)
    except ValueError:
        known = ", ".join(WriteMode)
        raise InvalidStatementError(statement="WRITE", detail=f"the mode {text!r} is none of {known}") from None
