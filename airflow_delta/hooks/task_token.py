"""A task's idempotency token: a commit that carries it shows that this task has committed.

The token is generated once for the first run of a task and once per clear, and stored before the first submit. A retry finds it
again; a cleared task gets a new one, because the clear count (``ti.max_tries``) changes when the task is cleared, but neither
when it is retried nor when another task of the run is cleared. A statement that changed between two tries gets a new token,
too.

Before Airflow 3.3 nothing can be stored, and the token is derived from what is the same in every try (``derived_token``). It is
also derived if a cleared task is to find its commit but Airflow deletes a task's stored values once the task has succeeded.
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
"""Whether a cleared task runs again (``rerun``), or finds and reports the commit it had made (``reuse``)."""


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
        start_version: A version that existed before any try of the task; -1 if there was no table, None if it could not be
            read.
        is_new: Whether this is the first try, so that no commit can carry the token yet.
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
        head: Returns the table's version, or None if it cannot be read.
        version_before_run: Returns a version from before the DAG run. It replaces the stored version if the table was deleted
            and created again, because the task's commit would not be found up to the stored version. Such a table has not
            reached the stored version yet, or that version was written at another time.
        written: Returns when the commit of a version was written (milliseconds since the epoch), which differs for a table that
            was created again; None if unknown.
        derived: Returns the new token, if the store would lose a random one before a cleared task looks for it. Default: a
            random token.
    """
    stored, retention = store.get(STATE_KEY), NEVER_EXPIRE if on_clear == "reuse" else None  # a clear may come a year later
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
    """Whether both versions are known, and the first is lower."""
    return version is not None and other is not None and version < other


def derived_token(
    context: Context,
    *,
    digest: str,
    on_clear: OnClear,
    head: Callable[[], int | None],
    version_before: Callable[[int], int | None],
) -> TaskToken:
    """The token of this try if Airflow cannot store it: a hash of DAG, run, task, map index, clear count and statement.

    With ``on_clear="rerun"`` the hash includes the time at which the run started: that stays the same for all tries of a task
    that is not cleared, and differs for a run that was deleted and created again under the same id.

    Args:
        context: Airflow's context of the task run.
        digest: Hash of the statement.
        on_clear: Whether a cleared task keeps its token.
        head: Returns the table's version, for the first try.
        version_before: Returns a version that existed at a time (milliseconds since the epoch), for later tries.
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

    ``SparkSubmitOperator`` keeps the id of the submitted job in the store (``durable``). Without the token in the key, a
    cleared task would find the job of the previous run and count as done.
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
