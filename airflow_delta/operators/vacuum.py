"""VACUUM as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import VacuumStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaVacuumOperator(DeltaCoreOperator):
    """Delete the files that no retained version of a Delta table needs. By default, they are only listed.

    Files of versions that a DAG run has pinned stay until the run has ended; the result's ``details["pins"]`` lists the pins
    and their holders.

    Args:
        table: URI of the table's root (templated).
        retention_hours: Keep files that were removed within this many hours (templated). Default: the table's
            ``delta.deletedFileRetentionDuration``, or a week.
        dry_run: List the files, but delete nothing (templated). Default: True.
        enforce_retention: Refuse a retention below the table's, which would break readers and time travel (templated).
        lite: Consider only files that commits since the last vacuum have removed, instead of listing the table (templated).
        inventory: Consider only the files that this Parquet file lists (templated), with the columns ``path``, ``length``,
            ``isDir`` and ``modificationTime``, as in inventories of S3 and Azure.
    """

    statement_type = VacuumStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self,
        *,
        retention_hours: float | str | None = None,
        dry_run: bool | str = True,
        enforce_retention: bool | str = True,
        lite: bool | str = False,
        inventory: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.retention_hours = retention_hours
        self.dry_run = dry_run
        self.enforce_retention = enforce_retention
        self.lite = lite
        self.inventory = inventory
