"""Waiting for a commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue, RetryPolicy, conf

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.hooks.commit_watch import head_version, reached_version
from airflow_delta.hooks.retry_policy import DeltaRetryPolicy
from airflow_delta.triggers.commit import DeltaCommitWaitTrigger

STATE_KEY = "airflow_delta.first_poke"


class DeltaCommitSensor(BaseSensorOperator):
    """Wait until a Delta table has reached a version; returns the latest version then. A missing table is waited for.

    Say what to wait for in exactly one way.

    :param table: URI of the table's root (templated).
    :param min_version: Wait for this version or a later one (templated).
    :param after_version: Wait for a version after this one (templated).
    :param since: ``"first_poke"`` waits for any commit after the first look. Retries and reschedules keep that look, a cleared
        task takes a new one.
    :param deferrable: Wait in the triggerer, without a worker.
    """

    template_fields: Sequence[str] = ("table", "min_version", "after_version")

    def __init__(
        self,
        *,
        table: str,
        min_version: int | str | None = None,
        after_version: int | str | None = None,
        since: Literal["first_poke"] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        retry_policy: RetryPolicy | None = DeltaRetryPolicy(),  # noqa: B008 - it has no state
        **kwargs: Any,
    ) -> None:
        super().__init__(retry_policy=retry_policy, **kwargs)
        self.table = table
        self.min_version = min_version
        self.after_version = after_version
        self.since = since
        self.deferrable = deferrable
        self._wanted: int | None = None

    def execute(self, context: Context) -> Any:
        """Wait here, or leave it to the triggerer after a first look."""
        if not self.deferrable:
            return super().execute(context)
        first = self.poke(context)
        if first:
            return first.xcom_value
        return self.defer(
            trigger=DeltaCommitWaitTrigger(table=self.table, version=self._version(context), poll_interval=self.poke_interval),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once: a listing of the log's end the first time, then one probe for the one file."""
        is_first = self._wanted is None
        reached = reached_version(log_store_for(self.table), self._version(context), thorough=is_first)
        return PokeReturnValue(is_done=reached is not None, xcom_value=reached)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> int:  # noqa: ARG002 - Airflow's signature
        """Return what the trigger saw."""
        version: int = event["version"]
        self.log.info("%s has reached version %s", self.table, version)
        return version

    def _version(self, context: Context) -> int:
        if self._wanted is None:
            self._wanted = self._wanted_version(context)
            self.log.info("Waiting for version %s of %s", self._wanted, self.table)
        return self._wanted

    def _wanted_version(self, context: Context) -> int:
        given = [each for each in (self.min_version, self.after_version, self.since) if each is not None]
        if len(given) != 1 or self.since not in {None, "first_poke"}:
            detail = "give exactly one of min_version, after_version and since='first_poke'"
            raise InvalidStatementError(statement="DeltaCommitSensor", detail=detail)
        if self.since is not None:
            return self._first_poke(context) + 1
        try:
            return int(given[0]) + (self.after_version is not None)
        except ValueError:
            raise InvalidStatementError(
                statement="DeltaCommitSensor", detail=f"the version {given[0]!r} is no number"
            ) from None

    def _first_poke(self, context: Context) -> int:
        """The table's version at the first look of this task run, which outlives the process."""
        store, generation = context["task_state_store"], context["ti"].max_tries
        stored: Any = store.get(STATE_KEY)
        if stored and stored["generation"] == generation:
            return int(stored["version"])
        version = head_version(log_store_for(self.table))
        store.set(STATE_KEY, {"version": version, "generation": generation})
        return version
