"""Base of the operators whose statements can run without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import Context

from airflow_delta.core.actions.commit_info import Origin
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements import (
    CleanUpLogStatement,
    DropStatement,
    MaintenanceStatement,
    OperationResult,
    Statement,
    VacuumStatement,
)
from airflow_delta.core.statements.json_form import table_names
from airflow_delta.hooks.pins import release_pins_of_ended_runs
from airflow_delta.hooks.state_file import delete_expired_states
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.operators.attempt import Attempt, origin_of, visible_head
from airflow_delta.operators.job import DeltaJobOperator

if TYPE_CHECKING:
    from airflow_delta.core.delta_log import DeltaLog

Engine = Literal["spark", "worker", "auto"]
"""Where a statement runs: in a job on Spark, in the Airflow worker, or in the worker if possible (``auto``)."""

HONOR_PINS = (CleanUpLogStatement, DropStatement, MaintenanceStatement, VacuumStatement)
"""Statements that delete files, except files of versions that a run has pinned."""


class DeltaCoreOperator(DeltaJobOperator):
    """Base of the operators whose statements can be executed without Spark.

    Args:
        engine: ``"spark"`` submits a job; ``"worker"`` does the work in the Airflow worker without a JVM, which is faster, but
            needs access to the table. ``"auto"`` uses the worker if it can read the table, else Spark (templated).
    """

    template_fields: Sequence[str] = (*DeltaJobOperator.template_fields, "engine")
    argument_types: ClassVar[Mapping[str, Any]] = {**DeltaJobOperator.argument_types, "engine": Engine}

    def __init__(self, *, engine: Engine = "spark", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.engine = engine

    def _begin(self, context: Context, *, in_worker: bool = False) -> Attempt:
        return super()._begin(context, in_worker=in_worker or self.engine == "worker")

    def _perform(self, attempt: Attempt, context: Context) -> ResultDocument:
        from airflow_delta.jobs.outcome import with_dry_run_flag
        from airflow_delta.jobs.table_stats import attach_table_stats, describe_tables

        release_ended_pins(self, attempt.statement, attempt, context)
        if not self._is_for_worker(attempt):
            return super()._perform(attempt, context)
        log = self.hook.delta_log(attempt.statement.table)
        origin = origin_of(context, attempt.token.token)
        began = time.monotonic()
        outcome = with_dry_run_flag(self._execute_in_worker(log, attempt, origin), attempt.statement)
        document = ResultDocument(outcome=outcome, duration_ms=round(1_000 * (time.monotonic() - began)))
        described = self._described_tables(attempt.statement)
        return describe_tables(attach_table_stats(document, log), described, self.hook.delta_log)

    def _is_for_worker(self, attempt: Attempt) -> bool:
        if self.engine != "auto":
            return self.engine == "worker"
        return attempt.head is not None and not any(map(self.hook.is_session_name, table_names(attempt.statement)))

    def _execute_in_worker(self, log: DeltaLog, attempt: Attempt, origin: Origin) -> OperationResult:
        from airflow_delta.jobs.core_statements import execute_in_core
        from airflow_delta.jobs.runner import Backend

        backend = Backend(open_table=self.hook.delta_log)
        return execute_in_core(
            log, attempt.statement, origin=origin, start_version=attempt.token.start_version, backend=backend
        )

    def _find_commit(self, attempt: Attempt) -> ResultDocument | None:
        """The commit of an earlier try, if the statement commits once; None for all other statements.

        After a commit that is one step of several, a retry does the remaining steps. A health check commits nothing, and the
        log that it checks may not be readable.
        """
        from airflow_delta.jobs.commits import commits_of

        return super()._find_commit(attempt) if commits_of(attempt.statement) == "once" else None


def release_ended_pins(operator: DeltaJobOperator, statement: Statement, attempt: Attempt, context: Context) -> None:
    """Before a statement that deletes files, release the pins of runs that have ended, if the worker can read the table."""
    if isinstance(statement, HONOR_PINS) and not statement.dry_run and _is_visible(operator, statement.table, attempt):
        for pin in release_pins_of_ended_runs(operator.hook.log_store(statement.table), context["ti"]):
            operator.log.info(
                "%s has ended; released its pin of version %s of %s", printable(pin.holder), pin.version, statement.table
            )
        delete_expired_states(operator.hook.log_store(statement.table))


def _is_visible(operator: DeltaJobOperator, table: str, attempt: Attempt) -> bool:
    """Whether the worker can read a table: the attempt's own, or that of one statement in a sequence."""
    own = attempt.statement.table
    return (attempt.head if table == own else visible_head(operator.hook, table, attempt.scratch or own)) is not None
