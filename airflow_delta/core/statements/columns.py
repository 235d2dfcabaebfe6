"""Columns as a DAG file writes them: Spark's DDL, whole or column by column."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_delta.core.errors import InvalidStatementError

Columns = str | Mapping[str, str]
"""``"id BIGINT NOT NULL, day DATE COMMENT 'text'"``, or ``{"id": "BIGINT NOT NULL", "day": "DATE COMMENT 'text'"}``."""


def columns_text(statement: str, columns: Columns, *, paths: bool = False) -> str:
    """The columns as one text.

    Args:
        statement: Name of the statement, for the error.
        columns: In either form; order matters.
        paths: Whether a name with dots is the way to a member of a struct, rather than a name.

    Raises:
        InvalidStatementError: It is in neither form, or empty.
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
