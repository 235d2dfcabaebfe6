"""Changes of columns, computed as new table states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from airflow_delta.core.schema import DataType, MappingMode, StructField, StructType, mapping_mode
from airflow_delta.core.table_changes import schema_edit, statistics_columns
from airflow_delta.core.table_changes.column_path import ColumnPath, overlap, parse_path, path_text
from airflow_delta.core.table_changes.columns import (
    COMMENT,
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
    NewColumn,
    Position,
    column_document,
)
from airflow_delta.core.table_changes.expressions import check_not_used
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_changes.table_state import Change, TableState

_TYPE_WIDENING = "delta.enableTypeWidening"
_VALUES_FOR_NEW_ROWS = (CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START)


def add_columns(table: TableState, columns: Sequence[NewColumn]) -> Change:
    """Add columns, which are NULL in existing rows."""
    schema = table.schema
    for column in columns:
        if any(key in column.metadata for key in _VALUES_FOR_NEW_ROWS):
            raise Refusal(f"{column.path} would need values in existing rows", "add it as it is, then set a default")
        schema = schema_edit.add_column(schema, column)
    return Change(parameters={"columns": list(map(_added, columns))}, metadata=table.with_schema(schema))


def rename_column(table: TableState, path: str, name: str) -> Change:
    """Rename a column; in data files it keeps its physical name."""
    old, _ = schema_edit.find_column(table.schema, parse_path(path))
    _check_mapped(table)
    check_not_used(table.metadata, table.schema, old, "rename")
    new = (*old[:-1], name)
    metadata = replace(
        table.with_schema(schema_edit.rename_column(table.schema, old, name)),
        partition_columns=tuple(
            name if (partition_column,) == old else partition_column for partition_column in table.metadata.partition_columns
        ),
        configuration=statistics_columns.renamed(table.configuration, old, new),
    )
    return Change(parameters={"oldColumnPath": path_text(old), "newColumnPath": path_text(new)}, metadata=metadata)


def drop_columns(table: TableState, paths: Sequence[str]) -> Change:
    """Drop columns; their values stay in data files until these are rewritten."""
    schema, configuration = table.schema, table.configuration
    names = []
    for path in map(parse_path, paths):
        found, _ = schema_edit.find_column(schema, path)
        _check_mapped(table)
        if found[0] in table.metadata.partition_columns:
            raise Refusal(f"{found[0]} is a partition column", "write the rows to a table with other partition columns")
        if any(overlap(found, clustered) for clustered in table.clustering()):
            raise Refusal(f"the table is clustered by {path_text(found)}", "cluster it by other columns first")
        check_not_used(table.metadata, schema, found, "drop")
        schema = schema_edit.drop_column(schema, found)
        configuration = statistics_columns.dropped(configuration, found)
        names.append(path_text(found))
    metadata = replace(table.with_schema(schema), configuration=dict(configuration))
    return Change(parameters={"columns": names}, metadata=metadata)


def widen_column(table: TableState, path: str, to: DataType) -> Change:
    """Widen the type of a column, or of an element, key or value; data files stay."""
    found, column = schema_edit.find_column(table.schema, parse_path(path))
    schema = schema_edit.widen_column(table.schema, found, to)
    if not table.is_on(_TYPE_WIDENING):
        raise Refusal("type widening is not enabled", f"set {_TYPE_WIDENING} to true first")
    check_not_used(table.metadata, table.schema, found, "widen")
    return _changed_column(table, schema, found, replace(column, type=to))


def allow_null(table: TableState, path: str) -> Change:
    """Allow NULL in a column."""
    return _with_field(table, path, lambda column: replace(column, nullable=True))


def comment_column(table: TableState, path: str, comment: str) -> Change:
    """Set the comment of a column."""
    return _with_field(table, path, lambda column: _with_metadata(column, COMMENT, comment))


def set_default(table: TableState, path: str, sql: str | None) -> Change:
    """Set the default of a column; ``sql`` None drops it."""
    if len(parse_path(path)) > 1:
        raise Refusal(f"{path} is a nested field, not a top-level column")

    def change(column: StructField) -> StructField:
        if sql is not None and {GENERATION_EXPRESSION, IDENTITY_START} & column.metadata.keys():
            raise Refusal(f"{column.name} is a generated or identity column")
        return _with_metadata(column, CURRENT_DEFAULT, sql)

    return _with_field(table, path, change)


def move_column(table: TableState, path: str, position: Position) -> Change:
    """Move a column within its struct."""
    found, column = schema_edit.find_column(table.schema, parse_path(path))
    return _changed_column(table, schema_edit.move_column(table.schema, found, position), found, column, position)


def sync_identity(table: TableState, path: str, high_water_mark: int) -> Change:
    """Set the high-water mark of an identity column, after which its values continue.

    Protocol: PROTOCOL.md, "Identity Columns".
    """

    def change(column: StructField) -> StructField:
        start, step = column.metadata.get(IDENTITY_START), column.metadata.get(IDENTITY_STEP)
        if not isinstance(start, int) or not isinstance(step, int) or not step:
            raise Refusal(f"{column.name} is not an identity column")
        given = column.metadata.get(IDENTITY_HIGH_WATER_MARK)
        before = given if isinstance(given, int) else start - step
        if (high_water_mark - start) % step or (high_water_mark - before) * step < 0:
            raise Refusal(f"{high_water_mark} is not among the numbers from {before} in steps of {step}")
        return _with_metadata(column, IDENTITY_HIGH_WATER_MARK, high_water_mark)

    return _with_field(table, path, change)


def _with_field(table: TableState, path: str, change: Callable[[StructField], StructField]) -> Change:
    found, _ = schema_edit.find_column(table.schema, parse_path(path))
    schema = schema_edit.change_field(table.schema, found, change)
    return _changed_column(table, schema, found, schema_edit.find_column(schema, found)[1])


def _changed_column(
    table: TableState, schema: StructType, path: ColumnPath, column: StructField, position: Position | None = None
) -> Change:
    parameters = {"column": column_document(path, column), "position": str(position) if position else None}
    return Change(parameters=parameters, metadata=table.with_schema(schema))


def _added(column: NewColumn) -> dict[str, Any]:
    path = parse_path(column.path)
    comment = {} if column.comment is None else {COMMENT: column.comment}
    field = StructField(path[-1], column.type, True, {**column.metadata, **comment})
    position = {"position": str(column.position)} if column.position else {}
    return {"column": column_document(path, field), **position}


def _check_mapped(table: TableState) -> None:
    if mapping_mode(table.configuration) is MappingMode.NONE:
        raise Refusal("the data files identify columns by name", "set delta.columnMapping.mode to name first")


def _with_metadata(column: StructField, key: str, value: Any) -> StructField:
    if value is None:
        return replace(column, metadata={name: value for name, value in column.metadata.items() if name != key})
    return replace(column, metadata={**column.metadata, key: value})
