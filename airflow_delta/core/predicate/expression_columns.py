"""The columns that a SQL expression names."""

from __future__ import annotations

from sqlglot import exp

from airflow_delta.core.predicate.syntax import MAX_WORK_OF_TABLE, UNPARSABLE, parsed


def named_columns(sql: str) -> frozenset[tuple[str, ...]] | None:
    """Paths that the expression names; None if the text is not valid SQL, or too long or too nested to be parsed."""
    try:
        tree = parsed(sql, exp.Condition, max_work=MAX_WORK_OF_TABLE)
        return frozenset(tuple(part.name for part in column.parts) for column in tree.find_all(exp.Column))
    except UNPARSABLE:
        return None
