"""The latest state of a log, followed as it grows."""

from __future__ import annotations

from collections.abc import Callable

from airflow_delta.core.errors import LogGapError
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.log_segment import find_later_commits
from airflow_delta.core.log.managed_commits import check_access
from airflow_delta.core.storage.log_store import LogStore

_MOST_FOLLOWED = 500
"""Commits, beyond as many again as there were at the start, whose actions are kept; all of them are, live files or not."""


class LatestReplay:
    """Knows the state that it has read: from the second call on only later commits are listed and read.

    After ``_MOST_FOLLOWED`` commits or more it begins again, at the newest checkpoint; where no new one is there, ever more
    seldom, so that it reads again about twice as many commits as the log grew by, at most.
    """

    def __init__(self, store: LogStore, at_start: Callable[[LogReplay], None]) -> None:
        """Nothing is read yet.

        Args:
            store: The table.
            at_start: Is called with a state that was read from the start of the log: it may be that of another table.
        """
        self._store = store
        self._at_start = at_start
        self._known: LogReplay | None = None
        self._began_with = 0  # commits after the checkpoint

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
        self._began_with = len(replay.segment.commits)
        return replay

    def _carried_on(self, known: LogReplay) -> LogReplay:
        try:
            segment = find_later_commits(self._store, known.segment)
            if segment is not None and len(segment.commits) <= 2 * self._began_with + _MOST_FOLLOWED:
                return known if segment is known.segment else known.followed_by(segment)
        except LogGapError:  # commits right after the known version were or are cleaned up: begin at a later checkpoint
            pass
        return self._from_the_start()
