"""Expectations on a table as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import Expectation, ExpectStatement
from airflow_delta.operators.arguments import argument_names
from airflow_delta.operators.job import DeltaJobOperator


class DeltaExpectOperator(DeltaJobOperator):
    """Fail unless the rows of a Delta table meet expectations; nothing is changed.

    Checks of rows that a task is about to write belong to that task (``expect``): then broken rows are never committed.

    Args:
        table: URI of the table's root (templated).
        expect: Conditions that each row must meet, or queries over the view ``staged``, which holds the rows (templated).
        where: Spark SQL over the table's columns: which rows (templated). Default: all.
        staged: Check the table as it will be once this is published: the XCom ``delta_staged`` of a task (templated). Default:
            the table as it is.
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
