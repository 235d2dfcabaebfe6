"""Versions and their timestamps: history, time travel, and the search for a task's own commit.

Protocol: PROTOCOL.md, "In-Commit Timestamps". Timestamps are milliseconds since the epoch. The timestamp of a commit is its
    in-commit timestamp, if the table has them, else its file's modification time, raised where needed so that it is later than
    the previous commit's.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from airflow_delta.core.actions import CommitInfo, Metadata
from airflow_delta.core.actions.commit_info import PUBLISHED_BY_KEY
from airflow_delta.core.errors import (
    InvalidStatementError,
    LogGapError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    TokenHistoryLostError,
)
from airflow_delta.core.log.commit_reader import read_commit_info
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.log_segment import LogListing, find_settled, list_log
from airflow_delta.core.log.timestamp import milliseconds
from airflow_delta.core.statements.validation import whole_number
from airflow_delta.core.storage.log_store import FileStatus, LogStore

_VERSION_DIGITS = 19  # of a 64-bit integer


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One commit in a table's history.

    Attributes:
        timestamp: Milliseconds since the epoch.
        commit_info: The ``commitInfo``; None when the writer left none.
    """

    version: int
    timestamp: int
    commit_info: CommitInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InCommitTimestamps:
    """The version from which on commits have an in-commit timestamp.

    Attributes:
        enabled_at: That version; None if they are not enabled.
    """

    enabled_at: int | None

    @classmethod
    def from_metadata(cls, metadata: Metadata) -> InCommitTimestamps:
        """As recorded in the table's properties; without an enablement version, all commits have them."""
        properties = metadata.configuration
        if properties.get("delta.enableInCommitTimestamps", "").lower() != "true":
            return cls(enabled_at=None)
        version = properties.get("delta.inCommitTimestampEnablementVersion", "")
        return cls(enabled_at=int(version) if version.isdecimal() and len(version) <= _VERSION_DIGITS else 0)

    def holds_for(self, version: int) -> bool:
        """Whether the commit of this version has an in-commit timestamp."""
        return self.enabled_at is not None and version >= self.enabled_at


def monotonic_times(commits: Mapping[int, FileStatus]) -> dict[int, int]:
    """Strictly ascending timestamps of these commits (ascending versions), from their files' modification times."""
    times: dict[int, int] = {}
    last: int | None = None
    for version, status in commits.items():
        last = status.modification_time if last is None else max(status.modification_time, last + 1)
        times[version] = last
    return times


def commit_timestamp(version: int, file_time: int, info: CommitInfo | None, in_commit: InCommitTimestamps) -> int:
    """The timestamp of one commit, in milliseconds since the epoch."""
    carried = info.in_commit_timestamp if info and in_commit.holds_for(version) else None
    return file_time if carried is None else carried


def history(store: LogStore, in_commit: InCommitTimestamps) -> Iterator[HistoryEntry]:
    """The commits whose files exist, newest first, each read when it is yielded; empty if only checkpoints are left.

    Commits that a log cleanup deletes meanwhile are skipped.

    Raises:
        TableNotFoundError: The log holds neither a commit nor a checkpoint.
        CorruptLogError: A ``commitInfo`` is not a JSON object.
    """
    listing = list_log(store)
    commits = listing.commits
    if listing.latest_version is None:
        raise TableNotFoundError(table=store.table_uri)
    times = monotonic_times(commits)
    for version in sorted(commits, reverse=True):
        try:
            entry = _entry(store, version, times[version], in_commit)
        except LogGapError:
            if version == listing.latest_version:  # no cleanup deletes the latest version
                raise
            continue
        yield entry


def newest(entries: Iterator[HistoryEntry], limit: int | None) -> list[HistoryEntry]:
    """The first ``limit`` entries; all when None. Raises ``InvalidStatementError`` for an invalid limit."""
    if limit is None:
        return list(entries)
    if whole_number("DESCRIBE HISTORY", "the limit", limit) < 0:
        raise InvalidStatementError(statement="DESCRIBE HISTORY", detail=f"expected a limit of 0 or more, found {limit}")
    return list(islice(entries, min(limit, sys.maxsize)))


class CommitTimes:
    """The timestamps of all versions that can be rebuilt, in milliseconds since the epoch; commits are read as needed.

    Attributes:
        head: The last version, which has no timestamp if only its checkpoint is left; -1 without any version.
    """

    def __init__(self, store: LogStore, in_commit: InCommitTimestamps, *, rebuilt: bool = True) -> None:
        """List the log, once.

        Args:
            store: The table's log store.
            in_commit: The version from which on commits have in-commit timestamps.
            rebuilt: Whether only versions that can be rebuilt count; otherwise every version whose commit file exists.
        """
        self._store = store
        self._in_commit = in_commit
        listing = list_log(store)
        self.head = -1 if listing.latest_version is None else listing.latest_version
        self._file_times = _times_of_readable(listing) if rebuilt else monotonic_times(listing.commits)
        self._versions = sorted(self._file_times)
        # Modification times and in-commit timestamps may not ascend together: after a copy, all files are new.
        self._with_time = bisect_left(self._versions, True, key=in_commit.holds_for)

    def time_of(self, version: int) -> int:
        """The timestamp of a version. Raises ``KeyError`` if its commit file is gone."""
        info = read_commit_info(self._store, version) if self._in_commit.holds_for(version) else None
        return commit_timestamp(version, self._file_times[version], info, self._in_commit)

    def last_until(self, timestamp: int) -> int:
        """The version that was the latest at ``timestamp``; the last version for every later time.

        Raises:
            TimestampOutOfRangeError: The time lies before the first version.
        """
        start, end = self._region(timestamp)
        position = bisect_right(self._versions, timestamp, start, end, key=self.time_of)
        if position == start:
            raise self.out_of_range(timestamp)
        return self._versions[position - 1]

    def first_from(self, timestamp: int) -> int:
        """The first version that was committed at ``timestamp`` or later.

        Raises:
            TimestampOutOfRangeError: The time lies after the last version.
        """
        start, end = self._region(timestamp)
        position = bisect_left(self._versions, timestamp, start, end, key=self.time_of)
        if position == len(self._versions):
            raise self.out_of_range(timestamp)
        return self._versions[position]

    def out_of_range(self, timestamp: int) -> TimestampOutOfRangeError:
        """The error for a time that has no version."""
        earliest, latest = (self.time_of(self._versions[end]) if self._versions else 0 for end in (0, -1))
        return TimestampOutOfRangeError(table=self._store.table_uri, timestamp=timestamp, earliest=earliest, latest=latest)

    def latest(self) -> int:
        """The timestamp of the last version."""
        return self.time_of(self._versions[-1])

    def _region(self, timestamp: int) -> tuple[int, int]:
        """The range of positions in which timestamps ascend: those with in-commit timestamps, or those before."""
        first, end = self._with_time, len(self._versions)
        carries = first < end and (first == 0 or timestamp >= self.time_of(self._versions[first]))
        return (first, end) if carries else (0, first)


def version_at(store: LogStore, timestamp: int, in_commit: InCommitTimestamps) -> int:
    """The version that was the latest at ``timestamp``, among those that can still be rebuilt.

    Raises:
        TimestampOutOfRangeError: The time lies before the first or after the last such version.
    """
    times = CommitTimes(store, in_commit)
    version = times.last_until(timestamp)
    if timestamp > times.latest():
        raise times.out_of_range(timestamp)
    return version


def _times_of_readable(listing: LogListing) -> dict[int, int]:
    earliest = listing.earliest_readable_version()
    return {version: time for version, time in monotonic_times(listing.commits).items() if version >= earliest}


def find_produced(
    store: LogStore, in_commit: InCommitTimestamps, wanted: Mapping[str, Any], *, with_token: bool = False
) -> HistoryEntry | None:
    """The newest commit whose record of the requesting task run (``Origin.record``) has all the wanted members.

    The members are those that operators write: ``dag_id``, ``task_id``, ``run_id``, ``map_index``, ``logical_date`` (ISO text).
    ``with_token`` skips commits without a token, which only prepare or follow a task's own commit.
    """

    def is_wanted(info: CommitInfo | None) -> bool:
        return info is not None and (not with_token or info.origin.token is not None) and is_produced_by(info, wanted)

    return next((entry for entry in history(store, in_commit) if is_wanted(entry.commit_info)), None)


def is_produced_by(info: CommitInfo, wanted: Mapping[str, Any]) -> bool:
    """Whether the commit's record of the requesting task run has all the wanted members; see ``find_produced``.

    A published commit counts for both the run that staged it and the run that published it.
    """
    runs = (info.origin.record, info.origin.record.get(PUBLISHED_BY_KEY))
    return any(
        isinstance(run, Mapping) and run and all(_is(run.get(name), value) for name, value in wanted.items()) for run in runs
    )


def _is(found: Any, wanted: Any) -> bool:
    """Whether both are the same value; dates are also equal if written for different time zones."""
    if found == wanted or not (isinstance(found, str) and isinstance(wanted, str)):
        return bool(found == wanted)
    try:
        return milliseconds(found) == milliseconds(wanted)
    except InvalidStatementError:
        return False


def find_commit(store: LogStore, token: str, after: int) -> HistoryEntry | None:
    """The first commit after version ``after`` that carries the token; None when no commit does.

    Raises:
        TokenHistoryLostError: Commits right after ``after`` were cleaned up, before or during the search, so it is unknown
            whether one carried the token.
    """
    try:
        return _first_of_token(store, token, find_settled(store, lambda: _all_commits_after(store, after)))
    except (LogGapError, FileNotFoundError) as error:
        listing = list_log(store, after + 1)
        earliest = min(listing.commits, default=listing.latest_version or after + 1)
        raise TokenHistoryLostError(table=store.table_uri, token=token, after=after, earliest=earliest) from error


def _first_of_token(store: LogStore, token: str, commits: Mapping[int, FileStatus]) -> HistoryEntry | None:
    for version, status in commits.items():
        if token.encode() in store.read(commit_path(version)):
            entry = _entry(store, version, status.modification_time, InCommitTimestamps(enabled_at=0))
            if entry.commit_info and entry.commit_info.origin.token == token:
                return entry
    return None


def _all_commits_after(store: LogStore, after: int) -> Mapping[int, FileStatus]:
    """Every commit after ``after``. Raises ``LogGapError`` if one is missing, as it could be the one looked for."""
    listing = list_log(store, after + 1)
    for version in range(after + 1, after + 1 if listing.latest_version is None else listing.latest_version + 1):
        if version not in listing.commits:
            raise LogGapError(table=store.table_uri, file=commit_path(version), detail="later commits exist")
    return listing.commits


def _entry(store: LogStore, version: int, file_time: int, in_commit: InCommitTimestamps) -> HistoryEntry:
    info = read_commit_info(store, version)
    return HistoryEntry(version=version, timestamp=commit_timestamp(version, file_time, info, in_commit), commit_info=info)
