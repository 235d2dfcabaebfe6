"""The columns that the table's own expressions reference, and which must not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_delta.core.actions import Metadata
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.predicate import named_columns
from airflow_delta.core.schema import StructField, StructType, all_fields
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.table_changes.column_path import ColumnPath, overlap, path_text
from airflow_delta.core.table_changes.columns import GENERATION_EXPRESSION
from airflow_delta.core.table_changes.refusal import Refusal

CONSTRAINT_PREFIX = "delta.constraints."


def check_constraints(configuration: Mapping[str, str]) -> dict[str, str]:
    """The table's CHECK constraints, SQL by name.

    Protocol: PROTOCOL.md, "CHECK Constraints".
    """
    constraints = ((key, sql) for key, sql in configuration.items() if key.lower().startswith(CONSTRAINT_PREFIX))
    return {key[len(CONSTRAINT_PREFIX) :]: sql for key, sql in constraints}


def columns_in(sql: str) -> frozenset[ColumnPath] | None:
    """Paths that the expression names; None if unknown."""
    return named_columns(sql)


def check_not_used(metadata: Metadata, schema: StructType, path: ColumnPath, change: str) -> None:
    """Return if no CHECK constraint, invariant or generated column references the column at ``path``.

    Raises:
        Refusal: Some do; the message names the expressions.
    """
    users = tuple(_users(metadata, schema, path))
    if users:
        raise Refusal(f"{path_text(path)} is used by {', '.join(users)}", f"drop them before you {change} the column")


def _users(metadata: Metadata, schema: StructType, path: ColumnPath) -> Iterator[str]:
    for name, sql in check_constraints(metadata.configuration).items():
        if _is_about(sql, path):
            yield f"the constraint {name}"
    for field in schema.fields:
        generation = field.metadata.get(GENERATION_EXPRESSION)
        if isinstance(generation, str) and name_key(field.name) != name_key(path[0]) and _is_about(generation, path):
            yield f"the generated column {field.name}"
    for field in all_fields(schema):
        if "delta.invariants" in field.metadata and _is_about(_invariant(field), path):
            yield f"the invariant of {field.name}"


def _invariant(field: StructField) -> str:
    """The column's invariant as SQL; the raw text if it is not valid SQL.

    Protocol: PROTOCOL.md, "Column Invariants".
    """
    try:
        return str(parse_json(field.metadata["delta.invariants"])["expression"]["expression"])
    except (ValueError, LookupError, TypeError):
        return ""


def _is_about(sql: str, path: ColumnPath) -> bool:
    columns = columns_in(sql)
    return columns is None or any(overlap(column, path) for column in columns)
