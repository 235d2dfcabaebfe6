"""One try of a task: its statement, its idempotency token, and the task run that its commit records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import Context

from airflow_delta.core.actions.commit_info import Origin
from airflow_delta.core.errors import StorageAccessError, TableNotFoundError, UnsupportedStorageError
from airflow_delta.core.statements import (
    CREATE_TABLES,
    DiscardStatement,
    DropStatement,
    ExpectStatement,
    PublishStatement,
    SequenceStatement,
    Statement,
)
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.table_uri import absolute
from airflow_delta.hooks.airflow_features import forgets_on_success
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import ScratchUriNeededError
from airflow_delta.hooks.task_token import OnClear, TaskToken, derived_token, task_token
from airflow_delta.jobs.spec import statement_digest

_NEED_NO_TABLE = (*CREATE_TABLES, PublishStatement, DiscardStatement, DropStatement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a task.

    Attributes:
        statement: The statement, with the names of tables resolved.
        token: The task's idempotency token.
        head: The table's version as the worker sees it; ``NO_TABLE`` if there is no table, None if the worker cannot read it.
        scratch: URI of the configured location for results; None without one.
    """

    statement: Statement
    token: TaskToken
    head: int | None
    scratch: str | None

    @classmethod
    def begin(
        cls,
        hook: DeltaHook,
        statement: Statement,
        context: Context,
        *,
        scratch_uri: str | None,
        on_clear: OnClear,
        in_worker: bool = False,
    ) -> Attempt:
        """Begin an attempt; its token is the task's token, which the first try has stored.

        Args:
            hook: The tables of the operator's connection.
            statement: The rendered statement; the names of its tables are resolved here.
            context: Airflow's context of the task run.
            scratch_uri: The operator's own location for results.
            on_clear: Whether a cleared task keeps its token.
            in_worker: Whether the work is done in the worker, which then has to read the table.

        Raises:
            DeltaError: There is no table, the worker cannot read it, or results have no location.
        """
        resolved = hook.resolve_table_uris(statement)
        scratch = scratch_uri or hook.scratch_uri or conf.get("delta", "scratch_uri", fallback=None) or None
        if scratch is not None:
            absolute(scratch, "driver and worker would resolve it against different working directories")
        head = _head(hook, resolved.table) if in_worker else visible_head(hook, resolved.table, scratch)
        first = resolved.statements[0] if isinstance(resolved, SequenceStatement) else resolved
        is_of_staged = isinstance(first, ExpectStatement) and first.staged is not None
        if head == NO_TABLE and not is_of_staged and not isinstance(first, _NEED_NO_TABLE):
            raise TableNotFoundError(table=resolved.table)
        return cls(statement=resolved, token=_token(hook, resolved, context, head, on_clear), head=head, scratch=scratch)


def _token(hook: DeltaHook, statement: Statement, context: Context, head: int | None, on_clear: OnClear) -> TaskToken:
    """The task's token for this statement: stored if Airflow has a state store, else derived."""
    digest, store = statement_digest(statement), context.get("task_state_store")

    def version_at(time: int) -> int | None:
        from airflow_delta.core.committed import version_before
        from airflow_delta.jobs.commits import commits_of

        if head in {None, NO_TABLE} or commits_of(statement) == "never":  # e.g. a health check of an unreadable log
            return head
        return version_before(hook.delta_log(statement.table), time)

    def written(version: int | None) -> int | None:
        from airflow_delta.watch.commit_watch import commit_written

        if head in {None, NO_TABLE} or version is None or version == NO_TABLE:
            return None
        return commit_written(hook.log_store(statement.table), version)

    derived = partial(derived_token, context, digest=digest, on_clear=on_clear, head=lambda: head, version_before=version_at)
    if store is None:
        return derived()
    return task_token(
        store,
        clear_count=context["ti"].max_tries,
        digest=digest,
        on_clear=on_clear,
        head=lambda: head,
        version_before_run=lambda: version_at(round(1_000 * context["dag_run"].run_after.timestamp())),
        written=written,
        derived=derived if on_clear == "reuse" and forgets_on_success() else None,
    )


def visible_head(hook: DeltaHook, table: str, scratch: str | None) -> int | None:
    """The table's version as the worker sees it; None if the worker cannot read the table, but there is a scratch location."""
    if not hook.workers_see_tables:
        if scratch is None:
            detail = f"workers have no access to the tables of the connection {hook.delta_conn_id!r}"
            raise ScratchUriNeededError(table=table, detail=detail)
        return None
    if hook.is_session_name(table):
        if scratch is None:
            raise ScratchUriNeededError(table=table, detail="only the job knows where the table of this name lies")
        return None
    try:
        return _head(hook, table)
    except (PermissionError, StorageAccessError, UnsupportedStorageError):
        if scratch is None:
            raise
    return None


def _head(hook: DeltaHook, table: str) -> int:
    from airflow_delta.watch.commit_watch import head_version

    return head_version(hook.log_store(table))


def origin_of(context: Context, token: str) -> Origin:
    """The task run as commit information, in Delta's own fields where they fit, so that every engine's history shows it."""
    ti, dag_run = context["ti"], context["dag_run"]
    logical_date = dag_run.logical_date
    job: Mapping[str, str] = {
        "jobId": ti.dag_id,
        "jobName": f"{ti.dag_id}.{ti.task_id}",
        "jobRunId": ti.run_id,
        "runId": str(ti.id),
        "jobOwnerId": context["task"].owner,
        "triggerType": str(dag_run.run_type.value),
    }
    record = {
        "dag_id": ti.dag_id,
        "task_id": ti.task_id,
        "run_id": ti.run_id,
        "map_index": ti.map_index,
        "try_number": ti.try_number,
        "logical_date": None if logical_date is None else logical_date.isoformat(),
    }
    return Origin(token=token, job=job, record=record)


def seconds_of_try(context: Context) -> float | None:
    """Seconds since this try began, including the time that the task was deferred; None if its beginning is unknown."""
    began = getattr(context["ti"], "start_date", None)
    return (datetime.now(UTC) - began).total_seconds() if isinstance(began, datetime) else None
