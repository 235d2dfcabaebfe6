"""Which tables a statement may create: such a name need not exist before the statement runs."""

from __future__ import annotations

from typing import Any

from airflow_delta.core.statements import CREATE_TABLES, SequenceStatement


def created_tables(statement: Any) -> set[str]:
    """The tables that the statement, or a statement inside it, may create."""
    statements = statement.statements if isinstance(statement, SequenceStatement) else (statement,)
    return {member.table for member in statements if isinstance(member, CREATE_TABLES)}
