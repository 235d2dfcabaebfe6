"""EXPECT: checks on the rows that a table has now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.fields import convert_fields
from airflow_delta.core.statements.publish import StagedHandle, staged_handle
from airflow_delta.core.statements.validation import expectations, require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectStatement:
    """Check expectations on the rows of a table, and fail if one does not hold; nothing is changed.

    Attributes:
        table: URI of the table's root.
        expect: The checks; in queries among them the rows are the view ``staged``.
        where: Which rows: Spark SQL over the table's columns; None is all of them.
        staged: Check the table as it will be once a staged commit is published: the commit's handle, or its JSON text.
    """

    type_name: ClassVar[str] = "expect"
    table: str
    expect: tuple[Expectation, ...]
    where: str | None = None
    staged: StagedHandle | str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("EXPECT", "table", self.table)
        object.__setattr__(self, "staged", staged_handle(self.staged))
        object.__setattr__(self, "expect", expectations("EXPECT", self.expect))
        if not self.expect:
            raise InvalidStatementError(statement="EXPECT", detail="it needs one expectation or more")
        if self.where is not None:
            require_text("EXPECT", "where", self.where)
