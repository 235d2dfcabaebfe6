"""Waiting for the result of a Spark job, in the triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_delta.core.foreign_values import printable
from airflow_delta.hooks.airflow_features import HAS_TRIGGER_KILLS, is_deferred, run_in_thread
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import MAY_PASS
from airflow_delta.hooks.spark_driver import DriverState, SparkDriver
from airflow_delta.jobs.result import written_results

UNANSWERED_LIMIT = 600
"""Seconds of failed requests after which the trigger gives up, so that the worker looks for itself.

The limit is for a cluster that does not report the driver and, once the driver has ended, for a storage or a catalog that
denies access.
"""

_LONGEST_QUESTION = 15  # seconds; of the 30 that Airflow 3.3 gives on_kill, which then still has to kill the driver

ENDINGS = {
    "failed": "the cluster says that the driver failed",
    "unknown": "the cluster does not report the outcome of the driver",
    "late": "it took longer than execution_timeout",
}
"""Texts for the states in which a job has left no document."""

_HANDED_ON = ("base", "token", "start_version", "before", "tables", "managed_tables", "try_number")
"""What the worker needs to know about the submit. It is part of the event because ``dag.test`` loses a deferral's arguments."""


class DeltaResultTrigger(BaseTrigger):
    """Fires once, when a job has left its result document, or will not leave one any more.

    The event holds ``base``, ``token``, ``start_version``, ``before``, ``tables``, ``managed_tables``, ``try_number`` and the
    ``state``: ``document``; ``succeeded`` or ``failed``, if the driver ended so without a document; ``unknown``, if the cluster
    has not answered for ten minutes; ``late``, if the deadline has passed and the driver was killed. A storage or a catalog
    that is temporarily unavailable is waited for. Once the driver has ended, the wait ends after the deadline, or when access
    was denied for ten minutes: the worker then reads the result itself, and reports the error. If a user clears or marks the
    task, the driver is killed.

    Args:
        delta_conn_id: The ``delta`` connection, for the location of results.
        base: URI below which the document is written.
        token: The task's idempotency token.
        start_version: The table's version when the token was generated; only passed on in the event.
        before: Numbers of the tries that had left a document before the job was submitted.
        tables: URIs of the statement's tables, by their names in it; only passed on.
        managed_tables: The tables whose commits a catalog ratifies; the catalog may vend the credentials for ``base``.
        try_number: The try of the waiting task; only passed on.
        spark_conn_id: The Spark connection, to query the state of the driver.
        job_id: Id of the driver, as ``SparkDriver`` takes it; None if the cluster cannot report its state.
        until: The deadline, in seconds since the epoch; None for no deadline.
        poll_interval: Seconds between two polls.
    """

    def __init__(
        self,
        *,
        delta_conn_id: str,
        base: str,
        token: str,
        start_version: int | None,
        before: Sequence[int],
        tables: Mapping[str, str] | None = None,  # triggers of earlier releases lack it
        managed_tables: Sequence[Mapping[str, str]] = (),  # the same
        try_number: int | None = None,  # the same
        spark_conn_id: str,
        job_id: str | None,
        until: float | None,
        poll_interval: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.delta_conn_id = delta_conn_id
        self.base = base
        self.token = token
        self.start_version = start_version
        self.before = list(before)
        self.tables = dict(tables or {})
        self.managed_tables = [dict(table) for table in managed_tables]
        self.try_number = try_number
        self.spark_conn_id = spark_conn_id
        self.job_id = job_id
        self.until = until
        self.poll_interval = poll_interval
        self._unanswered_since: float | None = None
        self._refused_since: float | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path of the class, and the arguments from which a triggerer builds the trigger again."""
        names = (*_HANDED_ON, "delta_conn_id", "spark_conn_id", "job_id", "until", "poll_interval")
        return "airflow_delta.triggers.result.DeltaResultTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until there is an outcome."""
        try:
            async for event in self._events():
                yield event
        except asyncio.CancelledError:
            # If it is not known whether the task waits, the triggerer is ending, and another one will continue.
            if not HAS_TRIGGER_KILLS and await self._is_waited_for() is False:
                await self._kill_driver()
            raise

    async def _events(self) -> AsyncIterator[TriggerEvent]:
        ended: str | None = None
        while True:
            there = await run_in_thread(self._document_is_there)
            is_late = self.until is not None and time.time() > self.until
            is_over = there is not None or is_late or _is_long_ago(self._refused_since)
            if there or (ended is not None and is_over):
                payload = {name: getattr(self, name) for name in _HANDED_ON}
                yield TriggerEvent(payload | {"state": "document" if there else ended})  # type: ignore[no-untyped-call]
                return
            if ended is None and is_late:
                ended = "late"
                await self._kill_driver()
            elif ended is None:
                state = await run_in_thread(self._driver_state)
                ended = None if state == "active" else state
            if ended is None or there is None:  # else poll once more at once: a job writes its document last
                await asyncio.sleep(self.poll_interval)

    async def on_kill(self) -> None:
        """Kill the driver, unless the task is still deferred: Airflow also calls this when another triggerer has taken over."""
        if not await self._is_waited_for():
            await self._kill_driver()

    async def _is_waited_for(self) -> bool | None:
        """Whether the task is still deferred, in this triggerer or in another one; None if Airflow does not answer."""
        try:
            async with asyncio.timeout(_LONGEST_QUESTION):
                return None if self.task_instance is None else await is_deferred(self.task_instance)
        except Exception as error:  # noqa: BLE001 - such as when the triggerer ends
            self.log.warning("it is not known whether the task of %s still waits: %s", self.job_id, printable(str(error)))
            return None

    async def _kill_driver(self) -> None:
        """Kill the driver, if the cluster can do that; failures are only logged."""
        if self.job_id is not None:
            try:
                await run_in_thread(SparkDriver(conn_id=self.spark_conn_id, job_id=self.job_id).kill)
            except Exception as error:  # noqa: BLE001 - clients of clusters raise whatever they like
                self.log.warning("could not kill the driver %s: %s", self.job_id, printable(str(error)))

    def _document_is_there(self) -> bool | None:
        """Whether there is a document of this job; None if the storage, or the catalog that vends its credentials, fails."""
        from airflow_delta.catalogs.managed_tables import ManagedTable

        try:
            hook = DeltaHook(self.delta_conn_id)
            hook.remember_managed(map(ManagedTable.from_json, self.managed_tables))
            found = bool(written_results(self.base, self.token, hook.storage_options(self.base)) - {*self.before})
        except Exception as error:  # noqa: BLE001 - on Airflow 3.0, a raised error would end each later try, too
            self.log.warning("could not read %s; retrying: %s", self.base, printable(str(error)))
            is_refusal = isinstance(error, PermissionError) or not isinstance(error, MAY_PASS)
            self._refused_since = (self._refused_since or time.monotonic()) if is_refusal else None
            return None
        self._refused_since = None
        return found

    def _driver_state(self) -> DriverState | str | None:
        """The driver's state on the cluster; None if it cannot be queried, or the cluster does not answer."""
        if self.job_id is None:
            return None
        try:
            state = SparkDriver(conn_id=self.spark_conn_id, job_id=self.job_id).state()
        except Exception as error:  # noqa: BLE001 - clients of clusters raise whatever they like
            self.log.warning("could not query the state of %s; retrying: %s", self.job_id, printable(str(error)))
            self._unanswered_since = self._unanswered_since or time.monotonic()
            return "unknown" if _is_long_ago(self._unanswered_since) else None
        self._unanswered_since = None
        return state


def _is_long_ago(since: float | None) -> bool:
    return since is not None and time.monotonic() - since > UNANSWERED_LIMIT
