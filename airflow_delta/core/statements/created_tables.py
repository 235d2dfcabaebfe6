"""Which tables a statement may make: their names need not be known before it has run."""

from __future__ import annotations

from typing import Any

from airflow_delta.core.statements import CREATE_TABLES, SequenceStatement


def created_tables(statement: Any) -> set[str]:
    """The tables that the statement, or one of its statements, may create."""
    statements = statement.statements if isinstance(statement, SequenceStatement) else (statement,)
    return {member.table for member in statements if isinstance(member, CREATE_TABLES)}
