"""Expectations on a table as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import Expectation, ExpectStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaExpectOperator(DeltaJobOperator):
    """Fail unless the rows of a Delta table meet expectations; the table is not changed.

    To check rows that another task is about to write, use that task's ``expect``: then invalid rows are never committed.

    Args:
        table: URI of the table's root (templated).
        expect: Conditions that each row must meet, or queries over the view ``staged``, which holds the rows (templated).
        where: Condition on the rows to check: Spark SQL over the table's columns (templated). Default: all rows.
        staged: Handle of a staged commit, from the XCom ``delta_staged`` of a task: the table is checked as it will be once
            that commit is published (templated). Default: the table as it is.
    """

    statement_type = ExpectStatement
    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, *argument_names(statement_type))

    def __init__(
        self,
        *,
        expect: Sequence[Expectation | str] | Expectation | str,
        where: str | None = None,
        staged: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.expect = expect
        self.where = where
        self.staged = staged
