"""The part of a table that a query needs."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.predicate import TRUE, Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushdown:
    """What can affect the result of a query; by default the whole table.

    Attributes:
        columns: Names of the columns whose values matter; all when None. Other columns may have any value, such as NULL.
        predicate: Rows for which it is not true do not matter.
    """

    columns: frozenset[str] | None = None
    predicate: Expression = TRUE


EVERYTHING = Pushdown()
