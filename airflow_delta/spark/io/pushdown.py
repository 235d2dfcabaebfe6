"""What a query needs of a table."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_delta.core.predicate import TRUE, Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushdown:
    """The part of a table that decides what a query gives; the default is the whole table.

    Attributes:
        columns: Names of the columns whose values count; all when None. Others have any value, NULL say.
        predicate: A row for which it is not true makes no difference.
    """

    columns: frozenset[str] | None = None
    predicate: Expression = TRUE


EVERYTHING = Pushdown()
