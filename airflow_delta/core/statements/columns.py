"""Column definitions in a DAG file: one Spark DDL text, or one for each column."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_delta.core.errors import InvalidStatementError

Columns = str | Mapping[str, str]
"""``"id BIGINT NOT NULL, day DATE COMMENT 'text'"``, or ``{"id": "BIGINT NOT NULL", "day": "DATE COMMENT 'text'"}``."""


def columns_text(statement: str, columns: Columns, *, paths: bool = False) -> str:
    """The column definitions as one DDL text.

    Args:
        statement: Name of the statement, for the error.
        columns: The columns in either form; their order matters.
        paths: Whether a name with dots is the path of a nested field rather than a column name.

    Raises:
        InvalidStatementError: The value has neither form, or is empty.
    """
    if isinstance(columns, str) and columns.strip():
        return columns
    if isinstance(columns, Mapping) and columns and all(isinstance(part, str) for pair in columns.items() for part in pair):
        return ", ".join(f"{_quoted(name, paths=paths)} {definition}" for name, definition in columns.items())
    detail = f"columns must be Spark DDL, or map names to types, found {columns!r}"
    raise InvalidStatementError(statement=statement, detail=detail)


def _quoted(name: str, *, paths: bool) -> str:
    if "`" in name:
        return name
    return ".".join(f"`{part}`" for part in (name.split(".") if paths else [name]))
