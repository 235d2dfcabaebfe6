"""Watching a table from the triggerer: each new range of commits becomes an asset event, and no commit is left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import Asset
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_delta.core.backoff import Backoff
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.foreign_values import json_value, printable
from airflow_delta.core.statements.fields import converted_value, is_template
from airflow_delta.core.statements.validation import require_text, require_type, texts
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.hooks.airflow_features import HAS_STATE_STORES, SharedStreamProducer, run_in_thread, run_in_thread_of
from airflow_delta.hooks.delta import DeltaHook
from airflow_delta.hooks.errors import StateFileError
from airflow_delta.hooks.state_file import StateFile, state_file
from airflow_delta.watch.bounded_log import LARGE_LOGS, Answer, BoundedLog, TooMuchToRead
from airflow_delta.watch.commit_cursor import PollResult, WatchCursor, first_cursor, poll
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.start import Start

STATE_KEY = "airflow_delta.watched"
"""The key of the cursor in the asset's state store."""

SETTLING = 5.0
"""Least seconds until an event counts as stored if Airflow does not report it; triggerers pass events on every second."""

LONGEST_PAUSE = 600.0
"""Longest pause between two polls while the storage is unavailable, in seconds, unless ``poll_interval`` is longer."""


@dataclass(slots=True)
class _Tick:
    """One poll that is due.

    Attributes:
        pause: Seconds until the next poll; None for the usual interval.
        when_stored: What to do once the events of this poll are in Airflow's database.
        is_done: Set when the next poll may be scheduled.
    """

    pause: float | None = None
    when_stored: Callable[[], Awaitable[None]] | None = None
    is_done: asyncio.Event = field(default_factory=asyncio.Event)


class _Clock(SharedStreamProducer):
    """Schedules the polls, one after the other; Airflow calls ``advance`` when the event of a poll is stored.

    To Airflow, this is a message broker whose messages are acknowledged; here, acknowledging writes the cursor.
    """

    def __init__(self, poll_interval: float) -> None:
        self.poll_interval = poll_interval

    async def open_stream(self) -> AsyncIterator[tuple[_Tick, _Tick]]:
        """Yield a tick at once, and each further tick when the one before is done and its pause is over."""
        while True:
            tick = _Tick()
            yield tick, tick
            await tick.is_done.wait()
            await asyncio.sleep(self.poll_interval if tick.pause is None else tick.pause)

    async def advance(self, batch: Sequence[Any]) -> None:
        """Called when Airflow has stored the events of these ticks, or has given them up."""
        for item in batch:
            await self.finish(item.broker_payload, is_stored=item.outcome.is_clean)

    async def finish(self, tick: _Tick, *, is_stored: bool = True) -> None:
        """Let the next tick come; before that, write the cursor of this one if its event is stored."""
        if is_stored and tick.when_stored is not None:
            await tick.when_stored()
        tick.is_done.set()


class DeltaCommitEventTrigger(BaseEventTrigger):
    """For ``AssetWatcher``: an asset event for each new range of commits to a Delta table.

    The payload is a dict: ``table``; ``from_version`` and ``to_version``, the first and the last version that changed data
    since the previous event (after a gap or a reset, all versions that were read); ``timestamp``, when the last one was
    committed, in milliseconds since the epoch (None if its commit file is gone); ``operations``, Delta's names of the
    operations (50 at most); ``commits`` and ``rows``, the number of these commits and of the rows that they changed. ``gap``
    says whether commits were cleaned up before they were read, ``reset`` whether the table was created again at its location,
    so that versions count from 0 again.

    The watcher's cursor is kept in the asset's state store, and moves only after Airflow has stored the event: if a triggerer
    dies, an event is repeated at worst. Events may come twice, and Airflow may give several to one DAG run or hold one back. So
    do not rely on the versions in the events that started a run; use ``DeltaNewCommitsOperator``.

    A table that does not exist yet and an unavailable storage are polled again, after growing pauses.

    Args:
        table: URI of the table's root, its path below the connection's table root, or its name in the connection's catalog.
        delta_conn_id: The ``delta`` connection.
        start: Where a new watcher begins: ``"latest"`` announces commits from now on, ``"earliest"`` all commits in the log, a
            number that version and the later ones.
        operations: Announce only these operations, by the names in Delta's commit information, such as ``MERGE``.
        partitions: Announce only commits that touch files for which this predicate over the partition columns holds.
        poll_interval: Seconds between two polls.
        asset: Name of the watched asset. Needed if two assets are watched by equal triggers or, before Airflow 3.3, by triggers
            that differ only in ``start`` or ``poll_interval``.
    """

    def __init__(
        self,
        *,
        table: str,
        delta_conn_id: str = DeltaHook.default_conn_name,
        start: Start = "latest",
        operations: Sequence[str] | str = (),
        partitions: str | None = None,
        poll_interval: float = 60.0,
        asset: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        require_text(type(self).__name__, "table", table)
        require_text(type(self).__name__, "delta_conn_id", delta_conn_id)
        require_type(type(self).__name__, "asset, the name of the watched asset,", asset, str | None)
        if partitions not in (None, ""):
            require_text(type(self).__name__, "partitions", partitions)
        self.operations = texts(type(self).__name__, "operations", operations, may_be_empty=True)
        seconds: float = converted_value(type(self).__name__, "poll_interval", poll_interval, float)
        texts_of_user = (table, delta_conn_id, start, partitions, poll_interval, *self.operations)
        if (template := next(filter(is_template, texts_of_user), None)) or seconds <= 0:
            detail = (
                "a watcher needs a poll_interval above 0 seconds, and takes no templates, which nothing would render: found "
                f"{repr(template) if template else seconds}"
            )
            raise InvalidStatementError(statement=type(self).__name__, detail=detail)
        self.table = table
        self.delta_conn_id = delta_conn_id
        self.start: Start = converted_value(type(self).__name__, "start", start, Start)
        self.partitions = partitions
        self.poll_interval = poll_interval if isinstance(poll_interval, int) else seconds  # as given, for serialize
        self.asset = asset
        # A compaction only rewrites existing rows: an event for it would start DAGs for nothing, and forever if these DAGs
        # compact the table.
        self._wanted = CommitFilter.of(operations=self.operations, partitions=partitions, data_change_only=True)
        self._files: BoundedLog | None = None
        self._polling: asyncio.Task[PollResult] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path of the class and its arguments. They identify the watcher, so the defaults must never change."""
        return (
            "airflow_delta.triggers.commit_event.DeltaCommitEventTrigger",
            {
                "table": self.table,
                "delta_conn_id": self.delta_conn_id,
                "start": self.start,
                "operations": list(self.operations),
                "partitions": self.partitions,
                "poll_interval": self.poll_interval,
                "asset": self.asset,
            },
        )

    def shared_stream_key(self) -> Hashable:
        """A key that no other watcher has: nothing is shared, but only streams report when an event is stored."""
        path, arguments = self.serialize()
        return path, repr(sorted(arguments.items()))

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """The producer that schedules the polls."""
        return _Clock(kwargs["poll_interval"])

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The events before Airflow 3.3, which does not report when an event is stored: it counts as stored one poll later."""
        async for event in self.filter_shared_stream(_confirmed(_Clock(self.poll_interval))):
            yield event

    async def filter_shared_stream(self, shared_stream: AsyncIterator[_Tick]) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each poll that found commits to announce. Errors of the storage are logged, never raised."""
        cursor: WatchCursor | None = None
        failures = 0
        pauses = Backoff(first=2 * self.poll_interval, most=max(LONGEST_PAUSE, self.poll_interval))
        try:
            async for tick in shared_stream:
                try:
                    found = await self._found_in_time(cursor)
                except Exception as error:  # noqa: BLE001 - a trigger that raises is started again every second
                    self.log.warning("could not read %s; retrying: %s", self.table, printable(str(error)))
                    self._files = None  # the next poll may have other credentials
                    tick.pause = pauses.length(failures)
                    failures += 1
                    continue
                if found is None:
                    tick.pause = 0
                    continue
                failures = 0
                cursor = found.cursor
                if found.has_more:
                    tick.pause = 0
                if found.event is not None:
                    tick.when_stored = partial(self._try_to_store, found.cursor)
                    yield TriggerEvent(json_value(found.event))  # type: ignore[no-untyped-call]
        finally:
            if self._polling is not None:
                self._polling.cancel()

    async def _found_in_time(self, cursor: WatchCursor | None) -> PollResult | None:
        """The result of a poll; None while the poll is still running, so that the next tick asks again.

        Airflow ends a watcher that takes too long for one tick, but still stores its event, so that the event would be repeated
        forever.
        """
        if self._polling is None:
            self._polling = asyncio.create_task(self._found_after(cursor))
        done, _ = await asyncio.wait({self._polling}, timeout=_longest_tick())
        if not done:
            return None
        polling, self._polling = self._polling, None
        return polling.result()

    async def _found_after(self, cursor: WatchCursor | None) -> PollResult:
        """Poll once, from this cursor or else the stored one; a cursor that moves without an event is stored at once."""
        stored = cursor or await self._stored_cursor()
        found = await self._poll(stored)
        if found.event is None and found.cursor != stored:
            await self._store_without_event(found.cursor)
        return found

    async def _poll(self, cursor: WatchCursor | None) -> PollResult:
        if cursor is None:
            cursor = await self._read(partial(first_cursor, start=self.start))
            if self.start == "latest":
                return PollResult(cursor=cursor)
        return await self._read(partial(poll, cursor=cursor, wanted=self._wanted))

    async def _read(self, work: Callable[[LogStore], Answer]) -> Answer:
        if self._files is None:
            self._files = await run_in_thread(self._bounded_log)
        try:
            return await run_in_thread(self._files.run, work)
        except TooMuchToRead:
            return await run_in_thread_of(LARGE_LOGS, self._files.run_in_process, work)

    def _bounded_log(self) -> BoundedLog:
        return BoundedLog(DeltaHook(self.delta_conn_id).log_store(self.table))

    async def _state(self) -> Any:
        """The asset's state store or, before Airflow 3.3, a file; None for a trigger that belongs to no asset."""
        store: Any = getattr(self, "asset_state_store", None)
        if store is None and not HAS_STATE_STORES:
            return await run_in_thread(self._state_file)
        return store[Asset.ref(name=self.asset)] if store is not None and self.asset else store

    def _state_file(self) -> StateFile:
        """The state file of this watcher. Changing ``poll_interval`` or ``start`` keeps the cursor."""
        owner = (self.asset,) if self.asset else (*self.operations, self.partitions)
        return state_file(DeltaHook(self.delta_conn_id), self.table, "watcher", *owner)

    async def _stored_cursor(self) -> WatchCursor | None:
        state = await self._state()
        stored = None if state is None else await state.aget(STATE_KEY)
        return WatchCursor.from_json(stored) if stored else None

    async def _store(self, cursor: WatchCursor) -> None:
        state = await self._state()
        if state is not None:
            await state.aset(STATE_KEY, cursor.to_json())

    async def _store_without_event(self, cursor: WatchCursor) -> None:
        """Store the cursor; a state file that cannot be written, as before the table exists, must not end the watcher."""
        try:
            await self._store(cursor)
        except StateFileError as error:
            self.log.warning("the watcher of %s would not know its cursor after a restart: %s", self.table, error)

    async def _try_to_store(self, cursor: WatchCursor) -> None:
        """Store the cursor, or only log a failure: until the next cursor is stored, a triggerer that dies repeats an event."""
        try:
            await self._store(cursor)
        except Exception as error:  # noqa: BLE001 - raising would end the watcher
            self.log.warning("could not store the cursor of the watcher of %s: %s", self.table, error)


def _longest_tick() -> float:
    """Seconds after which the watcher turns to the next tick: a part of Airflow's limit, which includes storing the event."""
    return conf.getfloat("triggerer", "shared_stream_ack_timeout", fallback=300.0) / 5


async def _confirmed(clock: _Clock) -> AsyncIterator[_Tick]:
    """The clock's ticks; the event of a tick counts as stored after the tick's pause."""
    async for tick, _ in clock.open_stream():
        yield tick
        if tick.when_stored is not None:
            await asyncio.sleep(max(SETTLING, clock.poll_interval if tick.pause is None else tick.pause))
            tick.pause = 0
        await clock.finish(tick)
