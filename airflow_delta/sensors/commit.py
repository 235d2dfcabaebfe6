"""Waiting for a commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import printable
from airflow_delta.core.statements.fields import is_template
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.hooks.checked_arguments import CheckedArguments, without_run
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import StateFileError
from airflow_delta.hooks.exposed_secrets import mask_exposed
from airflow_delta.hooks.state_file import task_state
from airflow_delta.hooks.task_token import StateStore
from airflow_delta.jobs.errors import JobFailedError
from airflow_delta.triggers.commit import DeltaCommitWaitTrigger
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_watch import CommitWait, CommitWatch, head_version
from airflow_delta.watch.commit_window import CommitWindow

STATE_KEY = "airflow_delta.wait"

_BEGINNINGS = ("min_version", "after_version", "after_timestamp", "during", "since", "run_of")
"""The arguments that define where to begin."""


class DeltaCommitSensor(CheckedArguments, BaseSensorOperator):
    """Wait for a commit to a Delta table, and return its version. A missing table is waited for.

    Give exactly one beginning: ``min_version``, ``after_version``, ``after_timestamp``, ``during``, ``since`` or ``run_of``.
    Without more, any commit will do, and the table's latest version is returned (of ``during``, the interval's latest).
    With ``operations``, ``partitions``, ``data_change_only`` or ``min_rows``, the commits from there on are read, each of them
    once, also over retries and reschedules; the version of the commit that fulfills the wait is returned.

    When commits were cleaned up before the sensor could read them, and none of those left fulfills the wait, the task fails
    with ``CommitsCleanedUpError`` instead of waiting for what may be gone: it polls too seldom, or begins too early. For a
    plain version, a checkpoint of a later one is proof enough.

    Args:
        table: URI of the table's root, or its name below the table root of the connection (templated).
        delta_conn_id: The ``delta`` connection (templated).
        min_version: Wait for this version or a later one (templated).
        after_version: Wait for a version after this one (templated).
        after_timestamp: Wait for a commit later than this time (templated), such as ``"{{ data_interval_start }}"``: a datetime
            (UTC where it has no zone), ISO text or milliseconds since the epoch. The time of a commit is the table's own: the
            in-commit timestamp where it has these, else the time of the commit's file.
        during: Wait for a commit of an interval (templated), from its start to before its end, such as that of the DAG run:
            ``("{{ data_interval_start }}", "{{ data_interval_end }}")``. Once a later commit exists and none of the interval
            fulfills the wait, the task fails with ``CommitWindowPassedError``.
        since: ``"first_poke"`` waits for a commit after the first poke (templated), and misses what was committed before that:
            ``after_timestamp`` does not. Retries and reschedules keep that version, a cleared task takes a new one.
        run_of: Wait for the commit of a DAG run (templated): ``{"dag_id": ..., "logical_date": ...}`` or ``run_id``, and
            ``task_id`` and ``map_index`` where it has several. All commits that the log holds are searched, from the oldest on:
            where the run was cleared, or the logical date has several runs, the first commit is found. A task that commits
            nothing, such as a MERGE without matches, is never found.
        operations: Wait for one of these operations (templated): Delta's names, such as ``"MERGE"``.
        partitions: Wait for a commit that adds or removes files in partitions for which this predicate holds (templated), such
            as ``"day = DATE'{{ ds }}'"``.
        data_change_only: Skip commits that change no row, such as those of OPTIMIZE and VACUUM (templated).
        min_rows: Wait until the matching commits have inserted, updated or deleted so many rows together (templated), by their
            metrics, or by the rows of the files they added where the writer left none.
        deferrable: Wait in the triggerer, without a worker (templated).
        retry_policy: Which errors are worth another try. Default: those that may not come again.
    """

    template_fields: Sequence[str] = (
        "table",
        "delta_conn_id",
        "min_version",
        "after_version",
        "after_timestamp",
        "during",
        "since",
        "run_of",
        "operations",
        "partitions",
        "data_change_only",
        "min_rows",
        "deferrable",
    )
    argument_types: ClassVar[Mapping[str, Any]] = {
        "min_version": int | None,
        "after_version": int | None,
        "since": Literal["first_poke"] | None,
        "data_change_only": bool,
        "min_rows": int | None,
        "deferrable": bool,
    }

    def __init__(
        self,
        *,
        table: str,
        delta_conn_id: str = DeltaHook.default_conn_name,
        min_version: int | str | None = None,
        after_version: int | str | None = None,
        after_timestamp: datetime | str | int | None = None,
        during: Sequence[datetime | str | int] | None = None,
        since: str | None = None,
        run_of: Mapping[str, Any] | None = None,
        operations: str | Sequence[str] = (),
        partitions: str | None = None,
        data_change_only: bool | str = False,
        min_rows: int | str | None = None,
        deferrable: bool | str = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.delta_conn_id = delta_conn_id
        self.min_version: Any = min_version
        self.after_version: Any = after_version
        self.after_timestamp = after_timestamp
        self.during = during
        self.since: Any = since
        self.run_of = run_of
        self.operations = operations
        self.partitions = partitions
        self.data_change_only: Any = data_change_only
        self.min_rows: Any = min_rows
        self.deferrable: Any = deferrable
        self._begins = [name for name in _BEGINNINGS if getattr(self, name) not in (None, {})]
        self._watch: CommitWatch | None = None

    def check_arguments(self) -> None:
        """Refuse a wait without a beginning, or with two, and one that no commit can fulfill.

        Raises:
            InvalidStatementError: The arguments do not define one wait.
        """
        if len(self._begins) != 1:
            given = f", not {' and '.join(self._begins)}" if self._begins else ""
            raise self.invalid(f"give exactly one of {', '.join(_BEGINNINGS)}{given}")
        known = without_run(self)
        values = [
            getattr(known, name) for name in ("min_version", "after_version", "min_rows", "run_of", "during", "after_timestamp")
        ]
        parts = [*(known.during or ())] if isinstance(known.during, list | tuple) else []
        if not any(map(is_template, [*values, *parts])):
            known.requested_wait()

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render like every operator; a secret in a URI is masked wherever Airflow shows it."""
        rendered = super().render_template(content, context, jinja_env, seen_oids)
        mask_exposed(rendered)
        return rendered

    def execute(self, context: Context) -> Any:
        """Wait here, or in the triggerer after a first poke."""
        if not self.deferrable:
            return super().execute(context)
        watch = self._begin(context)
        version = self._poll(watch, context)
        if version is not None:
            return version
        return self.defer(
            trigger=DeltaCommitWaitTrigger(
                table=self.table,
                delta_conn_id=self.delta_conn_id,
                wait=watch.wait.to_json(),
                poll_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: Context) -> PokeReturnValue:
        """Poke once: a listing of the log's end the first time, then one probe for the next file."""
        self._watch = self._watch or self._begin(context)
        version = self._poll(self._watch, context)
        if version is not None:
            self.log.info("Version %s of %s fulfills the wait", version, self.table)
        return PokeReturnValue(is_done=version is not None, xcom_value=version)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> int:  # noqa: ARG002 - Airflow's signature
        """Return the version that the trigger found, or raise its error."""
        if "error" in event:
            error = event["error"]
            raise DeltaError.from_json(error) or JobFailedError(
                table=self.table, operation="wait", error=error["code"], detail=error["text"]
            )
        version: int = event["version"]
        self.log.info("Version %s of %s fulfills the wait", version, self.table)
        return version

    def _begin(self, context: Context) -> CommitWatch:
        """The watch from the stored progress of this task run on, or from the beginning in the arguments."""
        store = DeltaHook(self.delta_conn_id).log_store(self.table)
        wait, thorough = self.requested_wait(), True
        stored: Any = self._state(context).get(STATE_KEY) if self._is_stored(wait) else None
        if stored and stored["generation"] == context["ti"].max_tries and stored["asked"] == self._digest(wait):
            wait = replace(wait, after=stored["after"], rows=stored["rows"])
        elif self.since is not None:
            wait, thorough = replace(wait, after=head_version(store)), False
            self._store(wait, context)
        requested = printable(", ".join(f"{name}={getattr(self, name)!r}" for name in self._begins))
        self.log.info("Waiting for a commit after version %s of %s (%s)", wait.after, self.table, requested)
        return CommitWatch(store, wait, thorough=thorough)

    def _poll(self, watch: CommitWatch, context: Context) -> int | None:
        before = watch.wait
        try:
            return watch.poll()
        finally:
            if watch.wait != before:
                self._store(watch.wait, context)

    def _is_stored(self, requested: CommitWait) -> bool:
        """Whether there is progress to be kept between two processes of this task run."""
        return self.since is not None or requested.window is not None or not requested.is_for_any

    def _store(self, wait: CommitWait, context: Context) -> None:
        progress: dict[str, Any] = {"after": wait.after, "rows": wait.rows, "asked": self._digest(self.requested_wait())}
        progress["generation"] = context["ti"].max_tries  # the clear count
        try:
            self._state(context).set(STATE_KEY, progress)
        except StateFileError as error:
            if self.since is not None:
                raise
            self.log.info("a retry will read the commits again: %s", error)  # else the progress only saves reading

    def _state(self, context: Context) -> StateStore:
        return task_state(context, DeltaHook(self.delta_conn_id), self.table)

    def _digest(self, requested: CommitWait) -> str:
        """A digest of the request: another request never continues from the progress of a former one."""
        text = json.dumps([self.table, self.since, requested.to_json()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def requested_wait(self) -> CommitWait:
        """The wait of the arguments; of ``since="first_poke"``, the version of the first poke is not known here.

        Raises:
            InvalidStatementError: An argument is invalid, or holds a template that was not rendered.
        """
        begin = self._begins[0]
        value = getattr(self, begin)
        if is_template(value) or is_template(self.min_rows):
            raise self.invalid(f"{begin} and min_rows hold a template that was not rendered")
        after = {"min_version": lambda: value - 1, "after_version": lambda: value}
        windows = {"after_timestamp": CommitWindow.after, "during": CommitWindow.during}
        if value is None and begin not in windows:
            raise self.invalid(f"the template of {begin} must render to a value, but rendered to None")
        wanted = CommitFilter.of(
            operations=self.operations, partitions=self.partitions, data_change_only=self.data_change_only, run=self.run_of
        )
        return CommitWait(
            after=after[begin]() if begin in after else NO_TABLE,
            wanted=wanted,
            min_rows=self.min_rows,
            window=windows[begin](value) if begin in windows else None,
        )
