"""DROP TABLE: deletes the files of a table whose catalog entry has been dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_delta.core.statements.fields import convert_fields
from airflow_delta.core.statements.validation import require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStatement:
    """Delete the files of a dropped table. The operator drops the name, or the job if only the job can reach the catalog.

    Attributes:
        table: URI of the table's root.
        table_id: Delta's id of the table to delete; if another table is at this place, the statement fails. Required with
            ``delete_files``.
        delete_files: Whether to delete every file below the root; otherwise no file is deleted.
        catalog_name: A name in the catalog of the job's session that is dropped first, if it still refers to this table.
        dry_run: Count the files, but delete nothing.
    """

    type_name: ClassVar[str] = "drop"
    table: str
    table_id: str | None = None
    delete_files: bool = False
    catalog_name: str | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        convert_fields(self)
        require_text("DROP TABLE", "table", self.table)
