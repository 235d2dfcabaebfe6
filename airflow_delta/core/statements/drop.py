"""DROP TABLE: the files of a table whose name is gone from its catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_delta.core.statements.fields import convert_fields
from airflow_delta.core.statements.validation import require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStatement:
    """Delete the files of a dropped table; its name is dropped by the operator, or by the job where that alone knows it.

    Attributes:
        table: URI of the table's root.
        table_id: Delta's id of the table to delete: another table at this place is refused. Needed with ``delete_files``.
        delete_files: Whether every file below the root is deleted; else nothing is.
        catalog_name: A name in the catalog of the job's session, which is dropped first, if it still is this table's.
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
