"""Waiting for a commit to a table, or for rows in it, in the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_delta.catalogs.errors import TableNameNotFoundError
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import printable
from airflow_delta.hooks.airflow_features import run_in_thread, run_in_thread_of
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import MAY_PASS
from airflow_delta.watch.bounded_log import LARGE_LOGS, BoundedLog, TooMuchToRead
from airflow_delta.watch.waits import wait_of
from airflow_delta.watch.watches import Watch, poll_once, watch_of


class DeltaCommitWaitTrigger(BaseTrigger):
    """Fires once: ``{"version": ...}`` when the wait is fulfilled, or ``{"error": ..., "try_number": ...}``.

    A missing table or name is waited for, and so are a storage and a catalog that are temporarily unavailable.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog.
        delta_conn_id: The ``delta`` connection.
        wait: What to wait for, from ``to_json`` of a ``CommitWait`` or ``PartitionWait``.
        poll_interval: Seconds between two polls.
        try_number: The try of the waiting task, which the event of an error passes on.
    """

    def __init__(
        self,
        *,
        table: str,
        delta_conn_id: str,
        wait: Mapping[str, Any],
        poll_interval: float,
        try_number: int | None = None,  # triggers of earlier releases lack it
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table
        self.delta_conn_id = delta_conn_id
        self.wait = dict(wait)
        self.poll_interval = poll_interval
        self.try_number = try_number

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path of the class, and the arguments from which a triggerer builds the trigger again."""
        return (
            "airflow_delta.triggers.commit.DeltaCommitWaitTrigger",
            {
                "table": self.table,
                "delta_conn_id": self.delta_conn_id,
                "wait": self.wait,
                "poll_interval": self.poll_interval,
                "try_number": self.try_number,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the wait is fulfilled, or fails."""
        watch: Watch | None = None
        while True:
            try:
                if watch is None:
                    watch = await run_in_thread(self._watch)
                version = await self._poll(watch)
            except (*MAY_PASS, TableNameNotFoundError) as error:
                self.log.warning("could not read %s; retrying: %s", self.table, printable(str(error)))
                if watch is not None:  # continue from here, with new credentials if there are any
                    self.wait, watch = watch.wait.to_json(), None
            except Exception as error:  # noqa: BLE001 - on Airflow 3.0, a raised error would end each later try, too
                yield TriggerEvent({"error": self._described(error), "try_number": self.try_number})  # type: ignore[no-untyped-call]
                return
            else:
                if version is not None:
                    yield TriggerEvent({"version": version})  # type: ignore[no-untyped-call]
                    return
            await asyncio.sleep(self.poll_interval)

    def _described(self, error: Exception) -> dict[str, Any]:
        if isinstance(error, DeltaError):
            return error.to_json()
        self.log.error("could not wait for %s", self.table, exc_info=error)
        return {"code": type(error).__name__, "text": printable(str(error))}

    def _watch(self) -> Watch:
        self._bounded = BoundedLog(DeltaHook(self.delta_conn_id).log_store(self.table))
        return watch_of(self._bounded.files, wait_of(self.wait))

    async def _poll(self, watch: Watch) -> int | None:
        try:
            return await run_in_thread(self._bounded.run, lambda _: watch.poll())
        except TooMuchToRead:
            work = partial(poll_once, document=watch.wait.to_json())
            version, progress = await run_in_thread_of(LARGE_LOGS, self._bounded.run_in_process, work)
            watch.wait = wait_of(progress)
            return version
