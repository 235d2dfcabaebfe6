"""Converts statements to definitions of new tables, and to steps of changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import (
    AddColumns,
    AddConstraint,
    AddFeature,
    AllowNull,
    ClusterBy,
    CommentColumn,
    ConvertStatement,
    CreateStatement,
    DropColumns,
    DropConstraint,
    DropFeature,
    MoveColumn,
    RenameColumn,
    SetDefault,
    SetProperties,
    TableChange,
    UnsetProperties,
    UpgradeProtocol,
    WidenColumn,
)
from airflow_delta.core.statements.columns import columns_text
from airflow_delta.core.table_changes import column_changes, property_changes
from airflow_delta.core.table_changes.column_path import parse_path, path_text
from airflow_delta.core.table_changes.columns import COMMENT, FIRST, NewColumn, Position
from airflow_delta.core.table_changes.create import NewTable
from airflow_delta.core.table_changes.ddl import ColumnText, parse_columns, parse_struct, parse_type
from airflow_delta.core.table_changes.refusal import Refusal
from airflow_delta.core.table_changes.schema_edit import find_column
from airflow_delta.core.table_changes.steps import Step, constraint, properties_set
from airflow_delta.core.table_changes.table_state import Change, Decision, TableState
from airflow_delta.core.table_changes.verification import RowsCheck, check_rows


def new_table(statement: CreateStatement) -> NewTable:
    """The table that a CREATE describes. Raises ``InvalidStatementError`` if its column definitions are invalid."""
    return NewTable(
        schema=parse_struct(columns_text("CREATE", statement.columns)),
        partition_columns=statement.partition_by,
        clustering_columns=statement.cluster_by,
        properties=statement.properties,
        constraints=statement.constraints,
        description=statement.comment,
    )


def partition_types(statement: ConvertStatement) -> dict[str, str] | None:
    """Names and types of the partition columns in a CONVERT; None without any. Raises as ``new_table``."""
    if statement.partition_by is None:
        return None
    columns = parse_struct(columns_text("CONVERT", statement.partition_by))
    return {field.name: str(field.type) for field in columns.fields}


def step_of(change: TableChange, rows_check: RowsCheck = check_rows) -> Step:
    """The step that makes this change.

    Args:
        change: The change.
        rows_check: Checks existing rows against a new constraint.

    Raises:
        InvalidStatementError: A text is not a valid column definition or type; or the change makes its own commits
            (``DropFeature``).
    """
    match change:
        case AddConstraint(name, sql):
            return constraint(name, sql, rows_check=rows_check)
        case SetProperties(properties):
            return properties_set(properties)
        case AddFeature(name):
            return properties_set({f"delta.feature.{name}": "supported"})
        case DropFeature():
            raise InvalidStatementError(statement="ALTER", detail="DropFeature must be the only change")
        case _:
            operation, decide = _decision(change)
            return Step(operation=operation, decide=decide)


def _decision(change: TableChange) -> tuple[str, Decision]:
    match change:
        case AddColumns():
            return "ADD COLUMNS", _added(change)
        case DropColumns():
            return "DROP COLUMNS", lambda table: column_changes.drop_columns(table, _dropped(table, change))
        case RenameColumn(column, to):
            return "RENAME COLUMN", lambda table: column_changes.rename_column(table, column, to)
        case UnsetProperties(names, if_exists=if_exists):
            return "UNSET TBLPROPERTIES", lambda table: property_changes.unset_properties(table, names, if_exists=if_exists)
        case DropConstraint(name, if_exists=if_exists):
            return "DROP CONSTRAINT", lambda table: property_changes.drop_constraint(table, name, if_exists=if_exists)
        case ClusterBy(columns):
            return "CLUSTER BY", lambda table: property_changes.cluster_by(table, columns)
        case UpgradeProtocol(reader, writer):
            return "UPGRADE PROTOCOL", lambda table: property_changes.upgrade_protocol(table, reader, writer)
        case _:
            return "CHANGE COLUMN", _changed_column(change)


def _changed_column(change: TableChange) -> Decision:
    match change:
        case WidenColumn(column, to):
            wide = parse_type(to)
            return lambda table: column_changes.widen_column(table, column, wide)
        case AllowNull(column):
            return lambda table: column_changes.allow_null(table, column)
        case CommentColumn(column, comment):
            return lambda table: column_changes.comment_column(table, column, comment)
        case SetDefault(column, sql):
            return lambda table: column_changes.set_default(table, column, sql)
        case MoveColumn(column, after=after):
            return lambda table: column_changes.move_column(table, column, Position(after=after))
        case _:
            raise TypeError(f"{type(change).__name__} is not a column change")


def _added(change: AddColumns) -> Decision:
    columns = parse_columns(columns_text("AddColumns", change.columns, paths=True))
    for column in columns:
        if not column.field.nullable:
            detail = f"{path_text(column.path)} cannot be NOT NULL: existing rows would be NULL"
            raise InvalidStatementError(statement="AddColumns", detail=detail)

    def decide(table: TableState) -> Change:
        wanted = [column for column in columns if not (change.if_not_exists and _is_there(table, path_text(column.path)))]
        return column_changes.add_columns(table, _placed(wanted, first=change.first, after=change.after))

    return decide


def _placed(columns: Sequence[ColumnText], *, first: bool, after: str | None) -> list[NewColumn]:
    """The columns; if a place is given, each is placed after the one before."""
    place = FIRST if first else Position(after=after) if after else None
    behind = (Position(after=column.field.name) for column in columns)
    return [
        NewColumn(
            path=path_text(column.path),
            type=column.field.type,
            comment=column.field.metadata.get(COMMENT),
            position=place and position,
            metadata={key: value for key, value in column.field.metadata.items() if key != COMMENT},
        )
        for column, position in zip(columns, chain([place], behind), strict=False)
    ]


def _dropped(table: TableState, change: DropColumns) -> list[str]:
    return [path for path in change.columns if not change.if_exists or _is_there(table, path)]


def _is_there(table: TableState, path: str) -> bool:
    try:
        find_column(table.schema, parse_path(path))
    except Refusal:
        return False
    return True
