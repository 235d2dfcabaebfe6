"""The versions of a table in a time window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_delta.core.errors import TimestampOutOfRangeError
from airflow_delta.core.log.history import CommitTimes, InCommitTimestamps
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.watch.commit_scan import metadata_of
from airflow_delta.watch.commit_window import CommitWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowVersions:
    """The bounds of a time window in the versions of a table.

    Attributes:
        first: The first version at the window's start or later; None if there is no such version yet.
        last: The last version before the window's end; None if there is no such version.
        head: The latest version of the table.
    """

    first: int | None
    last: int | None
    head: int

    @property
    def is_over(self) -> bool:
        """Whether every future commit will be after the window, as commit times ascend."""
        return self.last != self.head and self.first is not None


def versions_in(store: LogStore, window: CommitWindow) -> WindowVersions:
    """The versions in a window, found by searching for its ends; commits are only read for their in-commit timestamps.

    Raises:
        TableNotFoundError: There is no table.
        CorruptLogError: The log cannot be read.
    """
    times = CommitTimes(store, InCommitTimestamps.from_metadata(metadata_of(store)))
    return WindowVersions(
        first=_found(times.first_from, window.start),
        last=times.head if window.end is None else _found(times.last_until, window.end - 1),
        head=times.head,
    )


def _found(search: Callable[[int], int], time: int) -> int | None:
    try:
        return search(time)
    except TimestampOutOfRangeError:
        return None
