"""DELETE and UPDATE of the rows that match a condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.fields import convert_fields, is_template
from airflow_delta.core.statements.publish import Publish
from airflow_delta.core.statements.validation import expectations, require_text, require_type


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStatement:
    """Delete rows, in one commit.

    Attributes:
        table: URI of the table's root.
        where: Which rows: Spark SQL over the table's columns; None is all of them.
        dry_run: Count the rows, but commit nothing.
        publish: ``later`` stages the commit, and a ``PublishStatement`` makes it; until then no reader sees it.
    """

    type_name: ClassVar[str] = "delete"
    table: str
    where: str | None = None
    dry_run: bool = False
    publish: Publish = "now"

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("DELETE", "table", self.table)
        if self.where is not None:
            require_text("DELETE", "where", self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatement:
    """Update rows, in one commit.

    Attributes:
        table: URI of the table's root.
        assignments: Spark SQL over the row before the update, by column.
        where: Which rows: Spark SQL over the table's columns; None is all of them.
        expect: Checks on the updated rows.
        dry_run: Plan and check, but commit nothing.
        publish: ``later`` stages the commit, and a ``PublishStatement`` makes it; until then no reader sees it.
    """

    type_name: ClassVar[str] = "update"
    table: str
    assignments: Mapping[str, str]
    where: str | None = None
    expect: tuple[Expectation, ...] = ()
    dry_run: bool = False
    publish: Publish = "now"

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("UPDATE", "table", self.table)
        if self.where is not None:
            require_text("UPDATE", "where", self.where)
        object.__setattr__(self, "expect", expectations("UPDATE", self.expect))
        if is_template(self.assignments):
            return
        require_type("UPDATE", "assignments", self.assignments, Mapping)
        if not self.assignments:
            raise InvalidStatementError(statement="UPDATE", detail="it needs one assignment or more")
        for column, value in self.assignments.items():
            require_text("UPDATE", f"the value of {column}", value)
        object.__setattr__(self, "assignments", MappingProxyType(dict(self.assignments)))

    def __deepcopy__(self, memo: object) -> UpdateStatement:
        """Returns itself: Airflow 3.0 deep-copies DAGs, and a mapping proxy cannot be copied."""
        return self
