"""The latest version of a table's log, and the search for a commit, with as few requests as possible."""

from __future__ import annotations

from dataclasses import replace

from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.log.file_names import (
    END_OF_VERSIONS,
    LOG_DIRECTORY,
    LogFileKind,
    commit_file,
    commit_path,
    parse_name,
    version_prefix,
)
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.watch.commit_match import rows_changed
from airflow_delta.watch.commit_scan import CommitScan, LaterCommits, later_commits
from airflow_delta.watch.commit_window import CommitWindow
from airflow_delta.watch.errors import CommitsCleanedUpError, CommitWindowPassedError
from airflow_delta.watch.waits import CommitWait
from airflow_delta.watch.window_versions import versions_in

LISTED_EVERY = 60
"""One poll in this many lists the log, as the awaited commit may have been cleaned up; the others probe for the next one."""

_NO_VERSIONS = frozenset({LogFileKind.CHECKSUM, LogFileKind.COMPACTED_COMMITS})  # these do not prove that a version exists


def head_version(store: LogStore, at_least: int = 0) -> int:
    """The latest version in the log from ``at_least`` on, or ``NO_TABLE``. Costs one listing; no file is read.

    Checkpoints count like commits, because the commit of a checkpoint's version may have been cleaned up.
    """
    head = NO_TABLE
    for status in store.list_from(LOG_DIRECTORY, version_prefix(at_least)):
        name = status.path.rsplit("/", 1)[-1]
        if name >= END_OF_VERSIONS:
            break
        parsed = parse_name(name)
        if parsed is not None and parsed.kind not in _NO_VERSIONS:
            head = max(head, parsed.version)
    return head


def commit_written(store: LogStore, version: int) -> int | None:
    """When the commit of a version was written (milliseconds since the epoch), or None. Costs one listing; no file is read."""
    path = commit_path(version)
    found = next(iter(store.list_from(LOG_DIRECTORY, path.rpartition("/")[2])), None)
    return found.modification_time if found is not None and found.path == path else None


def reached_version(store: LogStore, wanted: int, *, thorough: bool) -> int | None:
    """The table's latest version if it is ``wanted`` or later; else, and for a missing table, None.

    Args:
        store: The files of the table.
        wanted: The awaited version.
        thorough: Whether to list the log instead of probing for one commit file; needed now and then, because the commit may
            have been cleaned up already.
    """
    if not thorough and not store.exists(f"{LOG_DIRECTORY}/{commit_file(wanted)}"):
        return None
    head = head_version(store, wanted)
    return None if head == NO_TABLE else head


class CommitWatch:
    """Searches for the commit of a wait; no commit is read twice. A table that was created again is read from its beginning.

    Attributes:
        wait: The wait with the progress of the search.
    """

    def __init__(self, store: LogStore, wait: CommitWait, *, thorough: bool = True, clock: Clock = system_clock) -> None:
        """``thorough``: whether the first poll lists the log instead of only probing for the next commit."""
        self.wait = wait
        self._store = store
        self._clock = clock
        self._scan = CommitScan(store, wait.wanted, with_files=wait.min_rows is not None)
        self._polls = 0 if thorough else 1

    def poll(self) -> int | None:
        """The version of the awaited commit (the latest version if any commit will do); None if there is no such commit yet.

        Raises:
            CommitsCleanedUpError: The commit is not found, and may be among commits after ``after`` that were cleaned up.
            CommitWindowPassedError: The commit is not found, and commits after the window exist.
            CorruptLogError: A commit is malformed.
            OSError: The storage cannot be reached.
        """
        thorough = self._polls % LISTED_EVERY == 0
        self._polls += 1
        if self.wait.is_for_any and self.wait.window is None:
            return self._latest(thorough=thorough)
        if not thorough and not self._store.exists(commit_path(self.wait.after + 1)):
            return None
        found = later_commits(self._store, self.wait.after)
        if found.head is None and self._is_made_anew():
            self.wait = replace(self.wait, after=NO_TABLE, rows=0)
            found = later_commits(self._store, NO_TABLE)
        if self.wait.window is None or found.head is None or not (found.commits or found.lost is not None):
            return self._first_match(found)
        return self._poll_window(self.wait.window, found)

    def _latest(self, *, thorough: bool) -> int | None:
        """The latest version, if any commit will do; also of a table created again, unless the user named a version."""
        after = self.wait.after
        if not (thorough and self.wait.is_since_poke):
            return reached_version(self._store, after + 1, thorough=thorough)
        head = head_version(self._store, max(after, 0))
        if head == NO_TABLE and self._is_made_anew():
            self.wait = replace(self.wait, after=NO_TABLE)
            return head_version(self._store)
        return head if head > after else None

    def _is_made_anew(self) -> bool:
        """Whether the log, which has nothing from the last read version on, belongs to a table that was created again.

        False if the user waits for version numbers: the new table may still reach them.
        """
        of_versions = self.wait.window is None and not self.wait.wanted.run and not self.wait.is_since_poke
        return not of_versions and self.wait.after != NO_TABLE and head_version(self._store) != NO_TABLE

    def _poll_window(self, window: CommitWindow, found: LaterCommits) -> int | None:
        """The version in the window that fulfills the wait; the latest one if any commit will do, or if the window moves."""
        is_moving, window = window.within is not None, window.at(self._clock())
        inside = versions_in(self._store, window)
        if inside.first is None:
            self.wait = replace(self.wait, after=inside.head)
            return None
        version = inside.last if inside.last is None or inside.last >= inside.first else None
        if version is not None and not self.wait.is_for_any:
            if inside.first > self.wait.after + 1:
                self.wait = replace(self.wait, after=inside.first - 1)
                found = later_commits(self._store, self.wait.after)
                if found.at is None:  # it may have been in the window
                    found = replace(found, lost=self.wait.after)
            version = self._first_match(found, until=version)
        if version is None and inside.is_over and window.end is not None:
            raise CommitWindowPassedError(table=self._store.table_uri, start=window.start, end=window.end, later=inside.head)
        return inside.head if version is not None and is_moving else version

    def _first_match(self, found: LaterCommits, until: int | None = None) -> int | None:
        """The version of the first of these commits (up to a version) that fulfills the wait; None without such a commit."""
        wait = self.wait
        is_whole = found.lost is None or wait.after == NO_TABLE
        for version, commit in self._scan.matches([version for version in found.commits if until is None or version <= until]):
            rows = wait.rows + (rows_changed(commit) if commit and wait.min_rows is not None else 0)
            if commit and rows >= (wait.min_rows or 0):
                return version
            wait = replace(wait, after=version, rows=rows)
            if is_whole:  # else the next poll would not notice that commits were lost
                self.wait = wait
        if not is_whole and found.lost is not None:
            earliest = min((version for version in found.commits if version > found.lost), default=found.head or found.lost)
            raise CommitsCleanedUpError(table=self._store.table_uri, first=found.lost, earliest=earliest)
        return None
