"""MERGE as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_delta.core.statements import UPSERT, Clause, Expectation, MergeStatement, Source
from airflow_delta.operators.arguments import source_of
from airflow_delta.operators.job import DeltaJobOperator


class DeltaMergeOperator(DeltaJobOperator):
    """Change a Delta table by the rows of a source, as one commit.

    In expressions ``target`` is the table and ``source`` the source::

        DeltaMergeOperator(
            task_id="silver",
            table="s3://lake/flights",
            source="s3://lake/feed",
            source_version="{{ ti.xcom_pull('bronze', key='delta_version') }}",
            on="target.flight = source.flight AND target.day = DATE'{{ ds }}'",
            clauses=[MatchedDelete(condition="source.cancelled"), *UPSERT],
        )

    :param table: URI of the table's root (templated).
    :param source: URI of a Delta table, or a source value (templated).
    :param on: Which rows match: Spark SQL (templated).
    :param clauses: What happens to matched and not matched rows, in order (templated). Default: update and insert.
    :param source_version: Version of the source table to read (templated). Default: the latest when the job starts.
    :param expect: Checks on the rows to be written, as Spark SQL (templated); one that fails keeps the commit from happening.
    :param dry_run: Plan, match and check, but commit nothing.
    """

    template_fields: Sequence[str] = (
        *DeltaJobOperator.template_fields,
        "source",
        "on",
        "clauses",
        "source_version",
        "expect",
    )
    script = "merge"

    def __init__(
        self,
        *,
        source: str | Source,
        on: str,
        clauses: Sequence[Clause] = UPSERT,
        source_version: int | str | None = None,
        expect: Sequence[Expectation | str] | Expectation | str = (),
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.on = on
        self.clauses = clauses
        self.source_version = source_version
        self.expect = expect
        self._dry_run = dry_run

    def statement(self) -> MergeStatement:
        """What the job is to do, made from the rendered arguments."""
        return MergeStatement(
            table=self.table,
            source=source_of(self.source, self.source_version),
            on=self.on,
            clauses=self.clauses,  # type: ignore[arg-type]  # any sequence becomes a tuple
            expect=self.expect,  # type: ignore[arg-type]  # texts become expectations
            dry_run=self._dry_run,
        )
