"""Waiting for a commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue, RetryPolicy, conf

from airflow_delta.core.errors import DeltaError, InvalidStatementError
from airflow_delta.hooks.commit_filter import CommitFilter
from airflow_delta.hooks.commit_watch import NO_TABLE, CommitWait, CommitWatch, head_version
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.exposed_secrets import mask_exposed
from airflow_delta.hooks.retry_policy import DeltaRetryPolicy
from airflow_delta.jobs.errors import JobFailedError
from airflow_delta.triggers.commit import DeltaCommitWaitTrigger

STATE_KEY = "airflow_delta.wait"


class DeltaCommitSensor(BaseSensorOperator):
    """Wait for a commit to a Delta table, and return its version. A missing table is waited for.

    Where to begin is said in exactly one way: ``min_version``, ``after_version``, ``since`` or ``run_of``. Without more, any
    commit will do, and the table's latest version is returned. With ``operations``, ``partitions``, ``data_change_only`` or
    ``min_rows``, the commits from there on are read, each of them once, whatever retries and reschedules come between; what is
    returned is the version of the commit that fulfils the wait.

    When commits were cleaned up before the sensor could read them, and none of those left is the wanted one, the task fails
    with ``CommitsCleanedUpError`` rather than wait for what may have been there: it looked too seldom, or begins too early.
    For a plain version, a checkpoint of a later one is proof enough.

    :param table: URI of the table's root, or its name below the table root of the connection (templated).
    :param delta_conn_id: The ``delta`` connection (templated).
    :param min_version: Wait for this version or a later one (templated).
    :param after_version: Wait for a version after this one (templated).
    :param since: ``"first_poke"`` waits for a commit after the first look. Retries and reschedules keep that look, a cleared
        task takes a new one.
    :param run_of: Wait for the commit of a DAG run (templated): ``{"dag_id": ..., "logical_date": ...}`` or ``run_id``, and
        ``task_id`` and ``map_index`` where it has several. It is looked for among all commits that the log holds. A task that
        commits nothing, such as a MERGE that finds nothing to do, is never found.
    :param operations: Wait for one of these operations (templated): Delta's names, such as ``"MERGE"``.
    :param partitions: Wait for a commit that adds or removes files in partitions for which this predicate holds (templated),
        such as ``"day = DATE'{{ ds }}'"``.
    :param data_change_only: Pass over commits that change no row, such as those of OPTIMIZE and VACUUM.
    :param min_rows: Wait until the wanted commits have inserted, updated or deleted so many rows together (templated), by
        their metrics, or by the rows of the files they added where the writer left none.
    :param deferrable: Wait in the triggerer, without a worker.
    :param retry_policy: Which errors are worth another try. Default: those that may not come again.
    """

    template_fields: Sequence[str] = (
        "table",
        "delta_conn_id",
        "min_version",
        "after_version",
        "run_of",
        "operations",
        "partitions",
        "min_rows",
    )

    def __init__(
        self,
        *,
        table: str,
        delta_conn_id: str = DeltaHook.default_conn_name,
        min_version: int | str | None = None,
        after_version: int | str | None = None,
        since: Literal["first_poke"] | None = None,
        run_of: Mapping[str, Any] | None = None,
        operations: str | Sequence[str] = (),
        partitions: str | None = None,
        data_change_only: bool = False,
        min_rows: int | str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        retry_policy: RetryPolicy | None = DeltaRetryPolicy(),  # noqa: B008 - it has no state
        **kwargs: Any,
    ) -> None:
        super().__init__(retry_policy=retry_policy, **kwargs)
        self.table = table
        self.delta_conn_id = delta_conn_id
        self.min_version = min_version
        self.after_version = after_version
        self.since = since
        self.run_of = run_of
        self.operations = operations
        self.partitions = partitions
        self.data_change_only = data_change_only
        self.min_rows = min_rows
        self.deferrable = deferrable
        self._watch: CommitWatch | None = None

    def render_template(self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None) -> Any:
        """Render like every operator; a secret in a URI is masked wherever Airflow shows it."""
        rendered = super().render_template(content, context, jinja_env, seen_oids)
        mask_exposed(rendered)
        return rendered

    def execute(self, context: Context) -> Any:
        """Wait here, or leave it to the triggerer after a first look."""
        if not self.deferrable:
            return super().execute(context)
        watch = self._begin(context)
        version = self._look(watch, context)
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
        """Look once: a listing of the log's end the first time, then one probe for the next file."""
        self._watch = self._watch or self._begin(context)
        version = self._look(self._watch, context)
        return PokeReturnValue(is_done=version is not None, xcom_value=version)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> int:  # noqa: ARG002 - Airflow's signature
        """Return what the trigger saw, or raise what it met."""
        if "error" in event:
            error = event["error"]
            raise DeltaError.from_json(error) or JobFailedError(
                table=self.table, operation="wait", error=error["code"], detail=error["text"]
            )
        version: int = event["version"]
        self.log.info("Version %s of %s is what was waited for", version, self.table)
        return version

    def _begin(self, context: Context) -> CommitWatch:
        """The watch from the stored place of this task run on, or from where the arguments say."""
        store = DeltaHook(self.delta_conn_id).log_store(self.table)
        wait, thorough = self._asked(), True
        stored: Any = context["task_state_store"].get(STATE_KEY) if self._is_stored(wait) else None
        if stored and stored["generation"] == context["ti"].max_tries and stored["asked"] == self._digest(wait):
            wait = replace(wait, after=stored["after"], rows=stored["rows"])
        elif self.since is not None:
            wait, thorough = replace(wait, after=head_version(store)), False
            self._store(wait, context)
        self.log.info("Waiting for a commit after version %s of %s", wait.after, self.table)
        return CommitWatch(store, wait, thorough=thorough)

    def _look(self, watch: CommitWatch, context: Context) -> int | None:
        before = watch.wait
        try:
            return watch.look()
        finally:
            if watch.wait != before:
                self._store(watch.wait, context)

    def _is_stored(self, asked: CommitWait) -> bool:
        """Whether there is a place to be kept between two processes of this task run."""
        return self.since is not None or not asked.is_for_any

    def _store(self, wait: CommitWait, context: Context) -> None:
        place: dict[str, Any] = {"after": wait.after, "rows": wait.rows, "asked": self._digest(self._asked())}
        place["generation"] = context["ti"].max_tries
        context["task_state_store"].set(STATE_KEY, place)

    def _digest(self, asked: CommitWait) -> str:
        """A mark of what is asked for: another question is never answered from the place of a former one."""
        text = json.dumps([self.table, self.since, asked.to_json()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _asked(self) -> CommitWait:
        """What the arguments ask for; of a wait since the first look, that look is not known here."""
        given = [each for each in (self.min_version, self.after_version, self.since, self.run_of or None) if each is not None]
        if len(given) != 1 or self.since not in {None, "first_poke"}:
            detail = "give exactly one of min_version, after_version, since='first_poke' and run_of"
            raise InvalidStatementError(statement="DeltaCommitSensor", detail=detail)
        after = NO_TABLE
        if self.min_version is not None:
            after = _number("min_version", self.min_version) - 1
        elif self.after_version is not None:
            after = _number("after_version", self.after_version)
        wanted = CommitFilter.of(
            operations=self.operations, partitions=self.partitions, data_change_only=self.data_change_only, run=self.run_of
        )
        min_rows = None if self.min_rows is None else _number("min_rows", self.min_rows)
        return CommitWait(after=after, wanted=wanted, min_rows=min_rows)


def _number(name: str, value: int | str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidStatementError(statement="DeltaCommitSensor", detail=f"{name} is {value!r}, which is no number") from None
