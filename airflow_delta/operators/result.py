"""The result of a job that another operator has submitted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from airflow.sdk import Context

from airflow_delta.core.errors import TableNotFoundError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements import Statement
from airflow_delta.core.statements.validation import require_type
from airflow_delta.hooks.conflict_report import report_conflicts
from airflow_delta.hooks.errors import MAY_PASS, JobNotSubmittedError
from airflow_delta.hooks.task_token import TaskToken
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.task_run import TaskRun
from airflow_delta.operators.attempt import Attempt, visible_head
from airflow_delta.operators.delta_job import CLEAR_COUNT_KEY, DeltaJob
from airflow_delta.operators.result_location import ResultLocation
from airflow_delta.operators.statement_results import StatementResultsOperator


class DeltaResultOperator(StatementResultsOperator):
    """Reports the outcome of a ``DeltaJob`` that another operator submits, with value, XComs, asset event and errors.

    If the job was lost, the table's log shows whether it has committed. The log does not show how far a statement got that
    makes several commits, such as a ``SequenceStatement``, a maintenance or a vacuum: then this task fails, and a retry of the
    submitting task continues after the last commit. Clear both tasks together.

    Args:
        job: The job (the strings in it are templates).
        submitted_by: Id of the task that submits it (templated). Default: the only task upstream.
        waits: Whether to wait for the job, if the other task only submits it (templated): at most for ``execution_timeout``,
            which must be set, and with ``deferrable=True`` in the triggerer. Default: the job must have ended when this task
            begins.
        **kwargs: Arguments of ``DeltaJobOperator``: ``delta_conn_id``, ``asset``, ``retry_policy`` and so on.
    """

    template_fields: Sequence[str] = (*StatementResultsOperator.template_fields, "job", "submitted_by", "waits")
    argument_types: ClassVar[Mapping[str, Any]] = {**StatementResultsOperator.argument_types, "waits": bool}

    def __init__(self, *, job: DeltaJob, submitted_by: str | None = None, waits: bool | str = False, **kwargs: Any) -> None:
        require_type("DeltaResultOperator", "job", job, DeltaJob)
        super().__init__(table=job.statement.table, scratch_uri=job.scratch_uri, **kwargs)
        self.job = job
        self.submitted_by = submitted_by
        self.waits = waits

    def check_arguments(self) -> None:
        """As in every operator; a task that waits needs an ``execution_timeout``."""
        super().check_arguments()
        if self.waits is True and self.execution_timeout is None:
            raise self.invalid("waits=True needs execution_timeout: the death of the job would go unnoticed")

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render the statement and the location of results inside the job."""
        if not isinstance(content, DeltaJob):
            return super().render_template(content, context, jinja_env, seen_oids)
        parts = {"statement": content.statement, "scratch_uri": content.scratch_uri}
        return replace(
            content, **{name: self.render_template(part, context, jinja_env, seen_oids) for name, part in parts.items()}
        )

    def statement(self) -> Statement:
        """The statement of the job."""
        return self.job.statement

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # upstream returns nothing
        """Return the result of the job.

        Raises:
            DeltaError: The job's error; ``ResultMissingError`` if the job left no result; ``JobNotSubmittedError`` if no
                upstream task has submitted the job.
        """
        self.check_arguments()
        hook, run = self.hook, self._run(context)
        location = ResultLocation(hook=hook, base=str(self.scratch_uri), token=run.key)
        statement = hook.resolve_table_uris(self.statement())
        token = TaskToken(token=run.key, start_version=None, is_new=False)
        attempt = Attempt(statement=statement, token=token, head=None, scratch=location.base)
        if self.waits and not self._is_written(location):
            if self.deferrable:
                self._wait_in_triggerer(location, attempt, context)
            while not self._is_written(location):
                time.sleep(self.poll_interval)
        self._submitted_run = run
        with report_conflicts(context):
            document = self._final_document(attempt, location, None, context)
        return self._deliver(document, context)

    def _is_written(self, location: ResultLocation) -> bool:
        """Whether there is a result document. Waits out an unreachable storage, as the trigger does, but not denied access."""
        try:
            return bool(location.written())
        except PermissionError:
            raise
        except MAY_PASS as error:
            self.log.warning("could not read %s; retrying: %s", location.base, printable(str(error)))
            return False

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the job that the triggerer has waited for."""
        self._submitted_run = self._run(context)
        return super().execute_complete(context, event)

    def on_kill(self) -> None:
        """Do nothing: the job belongs to the other task."""

    def _run(self, context: Context) -> TaskRun:
        """The run of the submitting task, as the job records it."""
        ti, upstream = context["ti"], context["task"].upstream_task_ids
        submitter = self.submitted_by or (next(iter(upstream)) if len(upstream) == 1 else None)
        if submitter is None:
            detail = f"expected one upstream task, found {len(upstream)}; name the one that submits as submitted_by"
            raise JobNotSubmittedError(table=self.table, detail=detail)
        clear_count = ti.xcom_pull(task_ids=submitter, key=CLEAR_COUNT_KEY, map_indexes=ti.map_index)
        if clear_count is None:
            detail = f"the task {submitter} has pushed no XCom {CLEAR_COUNT_KEY}"
            raise JobNotSubmittedError(table=self.table, detail=detail)
        return TaskRun(
            dag_id=ti.dag_id,
            task_id=submitter,
            run_id=ti.run_id,
            map_index=-1 if ti.map_index is None else ti.map_index,
            clear_count=int(clear_count),
            try_number=0,
        )

    def _find_commit(self, attempt: Attempt) -> ResultDocument | None:
        """The newest commit of the submitting task, if its statement commits once.

        None if there is no such commit, or the worker cannot read the table.
        """
        from airflow_delta.core.committed import result_of_commit
        from airflow_delta.jobs.commits import commits_of
        from airflow_delta.jobs.table_stats import attach_table_stats

        if commits_of(attempt.statement) != "once":
            return None
        hook, table, run = self.hook, attempt.statement.table, self._submitted_run
        try:
            if visible_head(hook, table, attempt.scratch) is None:
                return None
            log = hook.delta_log(table)
            entry = log.produced_by(with_token=True, **run.record)
        except (TableNotFoundError, OSError):
            return None
        if entry is None or entry.commit_info is None:
            return None
        found = result_of_commit(log.table_uri, entry.version, entry.commit_info, already_committed=True)
        return attach_table_stats(ResultDocument(outcome=found), log)
