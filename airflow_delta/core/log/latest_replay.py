"""The latest state of a log, followed as it grows."""

from __future__ import annotations

from collections.abc import Callable

from airflow_delta.core.errors import LogGapError
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.log_segment import find_later_commits
from airflow_delta.core.log.managed_commits import check_access
from airflow_delta.core.storage.log_store import LogStore


class LatestReplay:
    """Knows the state that it has read: from the second call on only later commits are listed and read."""

    def __init__(self, store: LogStore, at_start: Callable[[LogReplay], None]) -> None:
        """Nothing is read yet.

        Args:
            store: The table.
            at_start: Is called with a state that was read from the start of the log: it may be that of another table.
        """
        self._store = store
        self._at_start = at_start
        self._known: LogReplay | None = None

    def refresh(self) -> LogReplay:
        """The latest state, whether or not a table like that can be read.

        Raises:
            CatalogRequiredError, NotCatalogManagedError: As ``check_access``: what is found may not be the latest state.
            As ``LogReplay.from_store``.
        """
        self._known = self._from_the_start() if self._known is None else self._carried_on(self._known)
        check_access(self._store, self._known.protocol)
        return self._known

    def _from_the_start(self) -> LogReplay:
        replay = LogReplay.from_store(self._store)
        self._at_start(replay)
        return replay

    def _carried_on(self, known: LogReplay) -> LogReplay:
        try:
            segment = find_later_commits(self._store, known.segment)
            if segment is not None:
                return known if segment is known.segment else known.followed_by(segment)
        except LogGapError:  # commits right after the known version were or are cleaned up: begin at a later checkpoint
            pass
        return self._from_the_start()
