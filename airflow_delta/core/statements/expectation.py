"""An expectation: a data-quality check before the commit."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements.fields import convert_fields

_QUERY = re.compile(r"\s*\(*\s*(SELECT|WITH)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition on the staged result, checked before the commit.

    Attributes:
        sql: Either a boolean Spark SQL expression that must be TRUE for every staged row (NULL counts as a violation;
            subqueries over the source's views are allowed), or a query over the view ``staged`` that returns one row and one
            column: TRUE.
        name: Name shown to people; None uses the SQL itself.
    """

    type_name: ClassVar[str] = "expectation"
    sql: str
    _: KW_ONLY
    name: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self)
        if not self.sql.strip():
            raise InvalidStatementError(statement="Expectation", detail=f"sql must be a string, found {self.sql!r}")

    @property
    def is_query(self) -> bool:
        """Whether the text is a query over the whole result rather than an expression for each row."""
        return _QUERY.match(self.sql) is not None
