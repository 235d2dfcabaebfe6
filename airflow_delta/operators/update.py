"""UPDATE as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_delta.core.statements import Expectation, UpdateStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaUpdateOperator(DeltaJobOperator):
    """Update rows of a Delta table, as one commit.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog
            (templated).
        assignments: New values by column, as Spark SQL over the row before the update (templated).
        where: Condition on the rows to update: Spark SQL over the table's columns (templated). Default: all rows.
        expect: Data-quality checks on the updated rows, as Spark SQL (templated); if one fails, nothing is committed.
        dry_run: Plan and check, but commit nothing (templated).
        publish: ``"later"`` stages the commit, invisible to readers until ``DeltaPublishOperator`` makes it from the handle in
            the XCom ``delta_staged`` (templated). Default: ``"now"``.
    """

    statement_type = UpdateStatement
    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self,
        *,
        assignments: Mapping[str, str],
        where: str | None = None,
        expect: Sequence[Expectation | str] | Expectation | str = (),
        dry_run: bool | str = False,
        publish: str = "now",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.assignments = assignments
        self.where = where
        self.expect = expect
        self.dry_run = dry_run
        self.publish: Any = publish
