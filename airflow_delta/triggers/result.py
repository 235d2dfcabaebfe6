"""Waiting for the result of a Spark job, in the triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_delta.core.errors import StorageAccessError
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.spark_driver import DriverState, SparkDriver
from airflow_delta.jobs.result import written_results

PATIENCE = 600
"""Seconds for which a cluster may leave the question after a driver without an answer."""

_HANDED_ON = ("base", "token", "start_version", "before")
"""What the worker needs to know of the submit; in the event, because ``dag.test`` forgets the arguments of a deferral."""


class DeltaResultTrigger(BaseTrigger):
    """Fires once, when a job has left its document, or will leave none any more.

    The event holds ``base``, ``token``, ``start_version``, ``before`` and the ``state``: ``document``; ``succeeded`` or
    ``failed``, which the driver did without a document; ``unknown`` when the cluster does not answer for ten minutes; ``late``
    when the time is over, and the driver was killed.
    A storage that does not answer for the moment is waited for. When a person clears or marks the task, the driver is killed.

    :param delta_conn_id: The ``delta`` connection, for the place of results.
    :param base: Below which URI the document is left.
    :param token: The task's token.
    :param start_version: The table's version when the token was minted; only handed on.
    :param before: The tries that had left a document before the job was submitted.
    :param spark_conn_id: The Spark connection, to ask after the driver.
    :param job_id: The driver, as ``SparkDriver`` takes it; None when the cluster cannot be asked.
    :param until: When the time is over, in seconds since the epoch; None for never.
    :param poll_interval: Seconds between two looks.
    """

    def __init__(
        self,
        *,
        delta_conn_id: str,
        base: str,
        token: str,
        start_version: int | None,
        before: Sequence[int],
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
        self.spark_conn_id = spark_conn_id
        self.job_id = job_id
        self.until = until
        self.poll_interval = poll_interval
        self._unanswered_since: float | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path of the class and its arguments, from which a triggerer builds it again."""
        names = (*_HANDED_ON, "delta_conn_id", "spark_conn_id", "job_id", "until", "poll_interval")
        return "airflow_delta.triggers.result.DeltaResultTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something to tell."""
        ended: str | None = None
        while True:
            there = await asyncio.to_thread(self._document_is_there)
            if there or (ended is not None and (there is not None or ended == "late")):
                told = {name: getattr(self, name) for name in _HANDED_ON}
                yield TriggerEvent(told | {"state": "document" if there else ended})  # type: ignore[no-untyped-call]
                return
            if ended is None and self.until is not None and time.time() > self.until:
                ended = "late"
                await self.on_kill()
            elif ended is None:
                state = await asyncio.to_thread(self._driver_state)
                ended = None if state == "active" else state
            if ended is None or there is None:  # otherwise look once more: the document is the last thing that a job leaves
                await asyncio.sleep(self.poll_interval)

    async def on_kill(self) -> None:
        """End the driver, where the cluster can be told to."""
        if self.job_id is not None:
            try:
                await asyncio.to_thread(SparkDriver(conn_id=self.spark_conn_id, job_id=self.job_id).kill)
            except Exception as error:  # noqa: BLE001 - clients of clusters raise whatever they like
                self.log.warning("%s could not be ended: %s", self.job_id, error)

    def _document_is_there(self) -> bool | None:
        """Whether there is a document of this job; None when the storage does not answer."""
        try:
            options = DeltaHook(self.delta_conn_id).storage_options(self.base)
            return bool(written_results(self.base, self.token, options) - {*self.before})
        except (OSError, StorageAccessError) as error:
            self.log.warning("%s could not be looked at, it is tried again: %s", self.base, error)
            return None

    def _driver_state(self) -> DriverState | str | None:
        """What the cluster says of the driver; None when it cannot be asked or does not answer."""
        if self.job_id is None:
            return None
        try:
            state = SparkDriver(conn_id=self.spark_conn_id, job_id=self.job_id).state()
        except Exception as error:  # noqa: BLE001 - clients of clusters raise whatever they like
            self.log.warning("The cluster does not tell of %s, it is asked again: %s", self.job_id, error)
            self._unanswered_since = self._unanswered_since or time.monotonic()
            return "unknown" if time.monotonic() - self._unanswered_since > PATIENCE else None
        self._unanswered_since = None
        return state
