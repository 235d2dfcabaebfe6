"""Waiting for a version of a table, in the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.hooks.commit_watch import reached_version


class DeltaCommitWaitTrigger(BaseTrigger):
    """Fires once, when a table has reached a version; the event is ``{"version": the latest version then}``.

    A missing table is waited for, and so is a storage that does not answer for the moment.

    :param table: URI of the table's root.
    :param version: The version to wait for, or a later one.
    :param poll_interval: Seconds between two looks.
    """

    def __init__(self, *, table: str, version: int, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table
        self.version = version
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path of the class and its arguments, from which a triggerer builds it again."""
        return (
            "airflow_delta.triggers.commit.DeltaCommitWaitTrigger",
            {"table": self.table, "version": self.version, "poll_interval": self.poll_interval},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until the version is there."""
        store = await asyncio.to_thread(log_store_for, self.table)
        thorough = True
        while True:
            try:
                reached = await asyncio.to_thread(reached_version, store, self.version, thorough=thorough)
                thorough = False
            except OSError as error:
                self.log.warning("%s could not be looked at, it is tried again: %s", self.table, error)
            else:
                if reached is not None:
                    yield TriggerEvent({"version": reached})  # type: ignore[no-untyped-call]
                    return
            await asyncio.sleep(self.poll_interval)
