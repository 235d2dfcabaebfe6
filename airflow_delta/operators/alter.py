"""ALTER TABLE as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import AlterStatement, TableChange
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaAlterOperator(DeltaCoreOperator):
    """Change the columns, properties, constraints or features of a Delta table: all changes as one commit, or no change.

    Each change applies to the table as the changes before it leave it::

        DeltaAlterOperator(
            task_id="alter",
            table="s3://lake/flights",
            changes=[
                SetProperties({"delta.targetFileSize": "64mb"}),
                AddColumns({"gate": "STRING COMMENT 'of departure'"}, after="day", if_not_exists=True),
                CommentColumn("delay", "minutes"),
            ],
        )

    If the table already is as requested, nothing is committed. Enabling row tracking takes further commits before that one, and
    so may ``DropFeature``, which must be the only change; a retry continues after the last of them.

    Args:
        table: URI of the table's root (templated).
        changes: What to change, in order (templated).
        dry_run: Check, and report what the table would be, but commit nothing (templated).
    """

    statement_type = AlterStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(self, *, changes: Sequence[TableChange] | TableChange, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.changes = changes
        self.dry_run = dry_run
