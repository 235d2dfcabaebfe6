"""Watching a table from the triggerer: each new range of commits becomes one asset event; none is lost."""

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
"""Least seconds after which an event counts as stored where Airflow does not report it; triggerers hand on each second."""

LONGEST_PAUSE = 600.0
"""Longest pause between two polls while the storage is unavailable, in seconds, unless ``poll_interval`` is longer."""


@dataclass(slots=True)
class _Tick:
    """One poll that is due.

    Attributes:
        pause: Seconds until the next one; None for the usual interval.
        when_stored: What to do once the events of this poll are in Airflow's database.
        is_done: Set when the next one may begin.
    """

    pause: float | None = None
    when_stored: Callable[[], Awaitable[None]] | None = None
    is_done: asyncio.Event = field(default_factory=asyncio.Event)


class _Clock(SharedStreamProducer):
    """Schedules the polls, one after the other, and learns from Airflow when the event of a poll is stored.

    Airflow takes it for a message broker whose messages are acknowledged; here the acknowledgement writes the cursor.
    """

    def __init__(self, poll_interval: float) -> None:
        self.poll_interval = poll_interval

    async def open_stream(self) -> AsyncIterator[tuple[_Tick, _Tick]]:
        """A tick at once, and each next one after the one before is done and its pause is over."""
        while True:
            tick = _Tick()
            yield tick, tick
            await tick.is_done.wait()
            await asyncio.sleep(self.poll_interval if tick.pause is None else tick.pause)

    async def advance(self, batch: Sequence[Any]) -> None:
        """Called when the events of these ticks are stored, or were given up."""
        for item in batch:
            await self.finish(item.broker_payload, is_stored=item.outcome.is_clean)

    async def finish(self, tick: _Tick, *, is_stored: bool = True) -> None:
        """Let the next tick come, after the cursor of this one is written if its event is stored."""
        if is_stored and tick.when_stored is not None:
            await tick.when_stored()
        tick.is_done.set()


class DeltaCommitEventTrigger(BaseEventTrigger):
    """For ``AssetWatcher``: an asset event for each new range of commits to a Delta table.

    The payload is a dict: ``table``; ``from_version`` and ``to_version``, the first and last one that changed data since the
    event before; ``timestamp``, when the last one was committed, in milliseconds since the epoch; ``operations``, Delta's
    names (50 at most); ``commits`` and ``rows``, how many they were and how many rows they changed. ``gap`` says that commits
    were cleaned up before they were read, ``reset`` that the table was recreated at its location, with versions that count
    from 0 again.

    The watcher's cursor is kept in the asset's state store, and moves only after Airflow has stored the event: a triggerer that
    dies repeats an event at worst. Events may come twice, and Airflow may give several to one DAG run or hold one back; so
    never take versions from the events a run was started by, use ``DeltaNewCommitsOperator``.

    A table that does not exist yet is waited for, and so is a storage that is unavailable, with growing pauses.

    Args:
        table: URI of the table's root, or its name below the table root of the connection.
        delta_conn_id: The ``delta`` connection.
        start: Where a new watcher begins: ``"latest"`` announces what is committed from now on, ``"earliest"`` all that the log
            holds, a number that version and the later ones.
        operations: Announce these operations only, by Delta's names such as ``MERGE``.
        partitions: Announce only commits that touch files for which this predicate over the partition columns holds.
        poll_interval: Seconds between two polls.
        asset: Name of the watched asset; needed where two assets are watched by equal triggers, and before Airflow 3.3 by
            triggers that differ only in ``start`` or ``poll_interval``.
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
        self.poll_interval = poll_interval if isinstance(poll_interval, int) else seconds  # as it was, for the identity
        self.asset = asset
        # A compaction only rewrites existing rows: an event for it would start DAGs for nothing, for ever if they compact the
        # table themselves.
        self._wanted = CommitFilter.of(operations=self.operations, partitions=partitions, data_change_only=True)
        self._files: BoundedLog | None = None
        self._polling: asyncio.Task[PollResult] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path of the class and its arguments; they are the identity of the watcher, so defaults never change."""
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
        """A stream of its own: nothing is shared, but only streams report when an event is stored."""
        path, arguments = self.serialize()
        return path, repr(sorted(arguments.items()))

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """The producer that schedules the polls."""
        return _Clock(kwargs["poll_interval"])

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The events where, as before Airflow 3.3, nothing reports when one is stored: it counts as stored one poll later."""
        async for event in self.filter_shared_stream(_confirmed(_Clock(self.poll_interval))):
            yield event

    async def filter_shared_stream(self, shared_stream: AsyncIterator[_Tick]) -> AsyncIterator[TriggerEvent]:
        """An event for each poll that found something to announce. Never raises for errors of the storage."""
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
        """What a poll finds; None while it goes on, and the next tick asks again.

        Airflow ends a watcher that is too long at one tick, and stores its event all the same: it would come again for ever.
        """
        if self._polling is None:
            self._polling = asyncio.create_task(self._found_after(cursor))
        done, _ = await asyncio.wait({self._polling}, timeout=_longest_tick())
        if not done:
            return None
        polling, self._polling = self._polling, None
        return polling.result()

    async def _found_after(self, cursor: WatchCursor | None) -> PollResult:
        """One poll from this cursor on, or from the stored one; a cursor that moves without an event is stored at once."""
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
        """The asset's state store, before Airflow 3.3 a file; None for a trigger that no asset watches."""
        store: Any = getattr(self, "asset_state_store", None)
        if store is None and not HAS_STATE_STORES:
            return await run_in_thread(self._state_file)
        return store[Asset.ref(name=self.asset)] if store is not None and self.asset else store

    def _state_file(self) -> StateFile:
        """The file of this watcher, whatever its pauses are: a change of them keeps the position."""
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
        """Store it; a file beside a table that is not there yet, or that cannot be written, must not end the watching."""
        try:
            await self._store(cursor)
        except StateFileError as error:
            self.log.warning("the watcher of %s would not know its cursor after a restart: %s", self.table, error)

    async def _try_to_store(self, cursor: WatchCursor) -> None:
        """Store it; when that fails, the next cursor will be: until then a triggerer that dies repeats an event."""
        try:
            await self._store(cursor)
        except Exception as error:  # noqa: BLE001 - it would end the watcher
            self.log.warning("could not store the cursor of the watcher of %s: %s", self.table, error)


def _longest_tick() -> float:
    """Seconds after which the watcher turns to the next tick: Airflow's limit is for storing the event, too."""
    return conf.getfloat("triggerer", "shared_stream_ack_timeout", fallback=300.0) / 5


async def _confirmed(clock: _Clock) -> AsyncIterator[_Tick]:
    """The clock's ticks; the event of one counts as stored after its pause."""
    async for tick, _ in clock.open_stream():
        yield tick
        if tick.when_stored is not None:
            await asyncio.sleep(max(SETTLING, clock.poll_interval if tick.pause is None else tick.pause))
            tick.pause = 0
        await clock.finish(tick)
