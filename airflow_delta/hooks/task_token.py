"""A task's idempotency token ("token" below): a commit that carries it shows that this task has committed.

The token is generated once for each time that the task is to run, and stored before the first submit. A retry finds it again, a
cleared task does not: the clear count (``ti.max_tries``) changes when the task is cleared, and neither when it is retried nor
when another task of the run is cleared. A statement that was changed between two tries gets a token of its own.

Before Airflow 3.3 nothing can be stored, and the token is derived from what is the same in every try: ``derived_token``. So it
is where a cleared task is to find its commit, and Airflow forgets what a task has stored once it has succeeded.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol

from airflow.sdk import Context

from airflow_delta.hooks.airflow_features import NEVER_EXPIRE
from airflow_delta.jobs.task_run import TaskRun

STATE_KEY = "airflow_delta.token"

OnClear = Literal["rerun", "reuse"]
"""Whether a cleared task runs again, or finds the commit it had made."""


class StateStore(Protocol):
    """The part of Airflow's task state store that is used here."""

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default."""
        ...

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        """Create or replace the value."""
        ...

    def delete(self, key: str) -> None:
        """Delete the value."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskToken:
    """The idempotency token of one task run.

    Attributes:
        token: Random or derived id.
        start_version: A version that was there before any try of the task; -1 for no table, None when it could not be read.
        is_new: Whether this is the first try: no commit can carry it yet.
    """

    token: str
    start_version: int | None
    is_new: bool


def task_token(
    store: StateStore,
    *,
    clear_count: int,
    digest: str,
    on_clear: OnClear,
    head: Callable[[], int | None],
    version_before_run: Callable[[], int | None],
    written: Callable[[int | None], int | None] = lambda _: None,
    derived: Callable[[], TaskToken] | None = None,
) -> TaskToken:
    """The token of this try: the stored one if it is still valid, else a new one, which is stored.

    Args:
        store: The task's state store.
        clear_count: ``ti.max_tries``.
        digest: Hash of the statement.
        on_clear: Whether a cleared task keeps its token.
        head: Gives the table's version, for a new token.
        version_before_run: Gives a version that was there before the DAG run, for a table that was made anew since: of its
            commits those up to the stored version would not be found. It has not reached that version, or its is another one.
        written: Gives the time when the commit of a version was written (milliseconds since the epoch), by which the version of
            another table shows; None where it is not known.
        derived: Gives the new token, where the store forgets it before a cleared task looks for it. Default: it is random.
    """
    stored, retention = store.get(STATE_KEY), NEVER_EXPIRE if on_clear == "reuse" else None  # it may be cleared next year
    if stored and stored["digest"] == digest and (on_clear == "reuse" or stored["generation"] == clear_count):
        before, now = stored.get("start_written"), written(stored["start_version"])
        if _is_behind(head(), stored["start_version"]) or (before is not None and now is not None and before != now):
            start_version = version_before_run()
            stored = {**stored, "start_version": start_version, "start_written": written(start_version)}
            store.set(STATE_KEY, stored, retention=retention)
        return TaskToken(token=stored["token"], start_version=stored["start_version"], is_new=False)
    generated = TaskToken(token=uuid.uuid4().hex, start_version=head(), is_new=True) if derived is None else derived()
    state = {
        "token": generated.token,
        "start_version": generated.start_version,
        "start_written": written(generated.start_version),
        "digest": digest,
        "generation": clear_count,
    }
    store.set(STATE_KEY, state, retention=retention)
    return generated


def _is_behind(version: int | None, other: int | None) -> bool:
    """Whether both are known, and the first is the lower one."""
    return version is not None and other is not None and version < other


def derived_token(
    context: Context,
    *,
    digest: str,
    on_clear: OnClear,
    head: Callable[[], int | None],
    version_before: Callable[[int], int | None],
) -> TaskToken:
    """The token of this try where Airflow stores none: a hash of DAG, run, task, map index, clear count and statement.

    With ``on_clear="rerun"`` the time at which the run started is part of it: it stays as long as the run goes on, so for all
    tries of a task that is not cleared, and a run that was deleted and made again under its name has another one.

    Args:
        context: Airflow's context of the task run.
        digest: Hash of the statement.
        on_clear: Whether a cleared task keeps its token.
        head: Gives the table's version, for the first try.
        version_before: Gives a version that was there at a time (milliseconds since the epoch), for later tries.
    """
    ti, dag_run = context["ti"], context["dag_run"]
    is_reused = on_clear == "reuse"
    began = dag_run.run_after if is_reused else dag_run.start_date or dag_run.run_after
    run = TaskRun(
        dag_id=ti.dag_id,
        task_id=ti.task_id,
        run_id=ti.run_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        clear_count=-1 if is_reused else ti.max_tries,
        try_number=ti.try_number,
    )
    is_first = ti.try_number <= 1
    return TaskToken(
        token=run.token(digest if is_reused else f"{digest} {began.isoformat()}"),
        start_version=head() if is_first else version_before(round(1_000 * began.timestamp())),
        is_new=is_first,
    )


@dataclass(frozen=True, slots=True)
class TokenScopedStore:
    """A view of the task state store that belongs to one token.

    ``SparkSubmitOperator`` keeps the id of the submitted job there (``durable``), and would call a cleared task done because
    the job of the time before succeeded.
    """

    store: StateStore
    token: str

    def get(self, key: str, default: Any = None) -> Any:
        """The token's value, or the default."""
        return self.store.get(self._scoped(key), default)

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        """Create or replace the token's value."""
        self.store.set(self._scoped(key), value, retention=retention)

    def delete(self, key: str) -> None:
        """Delete the token's value."""
        self.store.delete(self._scoped(key))

    def _scoped(self, key: str) -> str:
        return f"{self.token}.{key}"
