"""Several statements as one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from airflow.sdk import Context

from airflow_delta.core.statements import SequenceStatement, Statement, TableStatement
from airflow_delta.core.statements.fields import is_template
from airflow_delta.hooks.checked_arguments import without_run
from airflow_delta.hooks.conflict_report import CONFLICT_KEY
from airflow_delta.jobs.catalog_publication import with_publications_of_statements
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.observe.links import HISTORY_KEY
from airflow_delta.observe.report import REPORT_KEY
from airflow_delta.operators.attempt import Attempt
from airflow_delta.operators.core import release_ended_pins
from airflow_delta.operators.statement_results import StatementResultsOperator

_TAKEN = {CONFLICT_KEY, HISTORY_KEY, REPORT_KEY, "delta_version", "return_value"}
"""Keys of the task's other XComs, which no statement may have as its name."""


class DeltaStatementsOperator(StatementResultsOperator):
    """Run statements in order in one Spark application, which starts once for all of them.

    Each statement commits by itself, with its own token: the first one that fails ends the task, those before it stay
    committed, and the next try continues after the last commit. An ``ExpectStatement`` commits nothing and fails if an
    expectation does not hold, so that no statement after it works on bad rows::

        DeltaStatementsOperator(
            task_id="daily",
            statements={
                "silver": MergeStatement(table="/lake/flights", source=TableSource("/lake/feed"), on="target.id = source.id"),
                "plausible": ExpectStatement(table="/lake/flights", expect="delay > -120", where="day = DATE'{{ ds }}'"),
                "compact": OptimizeStatement(table="/lake/flights", where="day = DATE'{{ ds }}'"),
                "checkpoint": CheckpointStatement(table="/lake/flights"),
            },
        )

    The version of each statement is an XCom under its name (in a list, ``"0"``, ``"1"`` and so on). The return value's
    ``details["statements"]`` has the result of each statement by name. The return value's ``table`` is the first statement's
    table, and ``version`` (also the XCom ``delta_version``) its version after the last statement.

    Args:
        statements: The statements, as a list or by name; the strings in them are templates.
        asset: As for ``DeltaJobOperator``; its event describes the last statement that changed the asset's table.
    """

    statement_type = SequenceStatement
    template_fields: Sequence[str] = (*StatementResultsOperator.template_fields, "statements")

    def __init__(self, *, statements: Sequence[TableStatement] | Mapping[str, TableStatement], **kwargs: Any) -> None:
        if "table" in kwargs:
            raise self.invalid("unexpected argument 'table': each statement names its own")
        super().__init__(table="", **kwargs)
        self.statements = statements

    def check_arguments(self) -> None:
        """As in every operator; statements that another task returns are only known in a run."""
        if is_template(without_run(self).statements):
            return
        super().check_arguments()
        names = set(self.statements) if isinstance(self.statements, Mapping) else set()
        if taken := sorted(_TAKEN & names):
            raise self.invalid(f"{', '.join(taken)} cannot be a name: the task has another XCom of this name")

    def statement(self) -> Statement:
        """The statements as one ``SequenceStatement``."""
        given = self.statements
        if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
            raise self.invalid(f"statements must be a list or a mapping of names, found {given!r:.100}")
        if isinstance(given, Mapping):
            return SequenceStatement(statements=tuple(given.values()), names=tuple(given))
        return SequenceStatement(statements=tuple(given))

    def _described_tables(self, resolved: Statement) -> tuple[str, ...]:
        """URIs of the tables that statements give by their names in the catalog."""
        given, hook = cast("SequenceStatement", self.statement()), self.hook
        pairs = zip(given.statements, cast("SequenceStatement", resolved).statements, strict=True)
        named_uris = {member.table: None for named, member in pairs if hook.table_name(named.table) is not None}
        return tuple(table for table in named_uris if table != resolved.table)

    def _published(self, document: ResultDocument) -> ResultDocument:
        """As in every operator, for the table of each statement that gives it by name."""
        return with_publications_of_statements(self.hook, cast("SequenceStatement", self.statement()), document)

    def _perform(self, attempt: Attempt, context: Context) -> ResultDocument:
        for statement in cast("SequenceStatement", attempt.statement).statements:
            release_ended_pins(self, statement, attempt, context)
        return super()._perform(attempt, context)

    def _find_commit(self, attempt: Attempt) -> ResultDocument | None:  # noqa: ARG002
        """None: there may be several commits, and the job itself finds where to continue."""
        return None
