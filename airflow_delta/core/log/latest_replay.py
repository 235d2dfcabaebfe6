"""The latest state of a log, updated as the log grows."""

from __future__ import annotations

from collections.abc import Callable

from airflow_delta.core.errors import LogGapError
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.log_segment import find_later_commits
from airflow_delta.core.log.managed_commits import check_access
from airflow_delta.core.storage.log_store import LogStore

_MOST_FOLLOWED = 500
"""It restarts at twice the commits it began with, plus so many: the actions of all commits are held in memory."""


class LatestReplay:
    """Keeps the state that it has read: after the first call, only newer commits are listed and read.

    After ``_MOST_FOLLOWED`` commits or more it starts again from the newest checkpoint. If there is no newer checkpoint, it
    does so ever less often, so that it reads at most about twice as many commits as the log grew by.
    """

    def __init__(self, store: LogStore, at_start: Callable[[LogReplay], None]) -> None:
        """Reads nothing yet.

        Args:
            store: The table's log store.
            at_start: Called with each state that was read from scratch, as it may be that of another table at the same place.
        """
        self._store = store
        self._at_start = at_start
        self._known: LogReplay | None = None
        self._began_with = 0  # commits after the checkpoint, at the last start

    def refresh(self) -> LogReplay:
        """The latest state, even if the table's features are not supported here.

        Raises:
            CatalogRequiredError, NotCatalogManagedError: As of ``check_access``: the state found may not be the latest.
            As ``LogReplay.from_store``.
        """
        self._known = self._from_the_start() if self._known is None else self._carried_on(self._known)
        check_access(self._store, self._known.protocol)
        return self._known

    def _from_the_start(self) -> LogReplay:
        replay = LogReplay.from_store(self._store)
        self._at_start(replay)
        self._began_with = len(replay.segment.commits)
        return replay

    def _carried_on(self, known: LogReplay) -> LogReplay:
        try:
            segment = find_later_commits(self._store, known.segment)
            if segment is not None and len(segment.commits) <= 2 * self._began_with + _MOST_FOLLOWED:
                return known if segment is known.segment else known.followed_by(segment)
        except LogGapError:  # commits right after the known version are or were cleaned up: start from a later checkpoint
            pass
        return self._from_the_start()
