"""Which columns an SQL expression is about."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


def named_columns(sql: str) -> frozenset[tuple[str, ...]] | None:
    """Paths that the expression names; None when it cannot be told."""
    try:
        tree = sqlglot.parse_one(sql, into=exp.Condition, dialect="spark")
    except (SqlglotError, RecursionError):
        return None
    return frozenset(tuple(part.name for part in column.parts) for column in tree.find_all(exp.Column))
