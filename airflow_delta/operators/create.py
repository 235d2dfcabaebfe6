"""CREATE TABLE as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import CreateStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.core import DeltaCoreOperator


class DeltaCreateOperator(DeltaCoreOperator):
    """Create an empty Delta table, as one commit.

    Columns are written as in Spark's DDL, as one string or column by column::

        DeltaCreateOperator(
            task_id="create",
            table="s3://lake/flights",
            columns={"flight": "INT NOT NULL", "day": "DATE", "delay": "INT COMMENT 'minutes'"},
            partition_by=["day"],
            mode="ignore",
            engine="worker",
        )

    ``DEFAULT 0``, ``GENERATED ALWAYS AS (CAST(departed AS DATE))`` and ``GENERATED ALWAYS AS IDENTITY`` are allowed, too. Like
    constraints, they bind every writer; an engine that does not support them refuses to write to the table.

    Args:
        table: URI of the table's root (templated).
        columns: The columns (templated).
        partition_by: Names of partition columns (templated).
        cluster_by: Clustering columns, at most four, with dots in the paths of nested ones; not together with ``partition_by``
            (templated).
        properties: Table properties (templated).
        constraints: Conditions of CHECK constraints by name (templated).
        comment: Description of the table (templated).
        mode: What happens if the table exists: ``error``, ``ignore`` (it stays as it is) or ``replace`` (its rows are removed,
            its history is kept) (templated).
        dry_run: Check, and report what the table would be, but commit nothing (templated).
    """

    statement_type = CreateStatement
    template_fields: Sequence[str] = (*DeltaCoreOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self,
        *,
        columns: str | Mapping[str, str],
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] = {},
        constraints: Mapping[str, str] = {},
        comment: str | None = None,
        mode: str = "error",
        dry_run: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.columns = columns
        self.partition_by = partition_by
        self.cluster_by = cluster_by
        self.properties = properties
        self.constraints = constraints
        self.comment = comment
        self.mode = mode
        self.dry_run = dry_run
