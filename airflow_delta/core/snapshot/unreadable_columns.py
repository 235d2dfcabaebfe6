"""The warning about columns of a table that cannot be read here."""

from __future__ import annotations

from airflow_delta.core.foreign_values import printable


class UnreadableColumnsWarning(UserWarning):
    """A table is read without some of its columns.

    Attributes:
        table: URI of the table.
        columns: Names of the columns that are left out.
    """

    def __init__(self, table: str, columns: tuple[str, ...]) -> None:
        super().__init__(table, columns)
        self.table = table
        self.columns = columns

    def __str__(self) -> str:
        names = printable(", ".join(self.columns))
        return f"{self.table} is read without its columns {names}: their types are not known here"
