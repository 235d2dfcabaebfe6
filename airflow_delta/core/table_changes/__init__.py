"""Creating a table; changing its columns, properties and constraints; and the features that this requires."""

from airflow_delta.core.table_changes.changes import TableChanges
from airflow_delta.core.table_changes.columns import FIRST, NewColumn, Position, after, generated, identity, with_default
from airflow_delta.core.table_changes.create import NewTable, TablePlace, create_table

__all__ = [
    "FIRST",
    "NewColumn",
    "NewTable",
    "Position",
    "TableChanges",
    "TablePlace",
    "after",
    "create_table",
    "generated",
    "identity",
    "with_default",
]
