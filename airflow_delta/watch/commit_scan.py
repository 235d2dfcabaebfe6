"""Reading the commits after a version, each commit once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

from airflow_delta.core.actions import CommitActions, Metadata
from airflow_delta.core.errors import LogGapError, VersionNotFoundError
from airflow_delta.core.log.commit_reader import read_commit, read_commit_info
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.log_segment import LogListing, find_settled, list_log
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_match import fulfills

_AT_ONCE = 16  # Parallel requests; when the search ends, up to as many commits have been read in vain.


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterCommits:
    """What one listing found after a version.

    Attributes:
        at: The commit file of that version itself; None if it does not exist.
        commits: The commit files after it, by version, ascending.
        head: The table's latest version, perhaps only known from a checkpoint; None if the log has nothing from the version on.
        lost: The first version after it whose commit is missing although the log has later versions; None if no commit is
            missing.
    """

    at: FileStatus | None
    commits: Mapping[int, FileStatus]
    head: int | None
    lost: int | None


def later_commits(store: LogStore, after: int) -> LaterCommits:
    """The commits in the log after version ``after`` (-1 for all commits)."""

    def listed() -> LogListing:
        listing = list_log(store, max(after, 0))
        missing = _first_missing(listing, after)
        if missing is not None:
            raise LogGapError(table=store.table_uri, file=commit_path(missing), detail="there are later ones")
        return listing

    try:
        listing = find_settled(store, listed)
    except LogGapError:
        listing = list_log(store, max(after, 0))
    return LaterCommits(
        at=listing.commits.get(after),
        commits={version: status for version, status in listing.commits.items() if version > after},
        head=listing.latest_version,
        lost=_first_missing(listing, after),
    )


def _first_missing(listing: LogListing, after: int) -> int | None:
    first = next(version for version in count(after + 1) if version not in listing.commits)
    return first if listing.latest_version is not None and first <= listing.latest_version else None


class CommitScan:
    """Finds the commits of a table that fulfill a filter.

    Attributes:
        table_id: The table's id, from the last commit read that contains metadata; None without such a commit, and if only
            ``commitInfo`` is read.
    """

    def __init__(self, store: LogStore, wanted: CommitFilter, *, with_files: bool = False) -> None:
        self._store = store
        self._wanted = wanted
        self._reads_files = with_files or wanted.looks_at_files
        self.table_id: str | None = None
        self._metadata: Metadata | None = None  # at the last commit read; only if needed
        self._last_version: int | None = None

    def matches(self, versions: Sequence[int]) -> Iterator[tuple[int, CommitActions | None]]:
        """Each of these versions (ascending) with its commit, or with None if the commit does not fulfill the filter.

        Raises:
            LogGapError: A commit file is missing.
            CorruptLogError: A commit is malformed.
            InvalidPredicateError: As ``fulfills`` raises it.
        """
        for start in range(0, len(versions), _AT_ONCE):
            some = versions[start : start + _AT_ONCE]
            for version, commit in zip(some, self._read_all(some), strict=True):
                self.table_id = commit.metadata.id if commit.metadata else self.table_id
                metadata = self._metadata_at(version, commit) if self._wanted.partitions else None
                yield version, commit if fulfills(commit, self._wanted, metadata, self._store.table_uri) else None

    def _read_all(self, versions: Sequence[int]) -> list[CommitActions]:
        if len(versions) == 1:
            return [self._read(versions[0])]
        with ThreadPoolExecutor(len(versions)) as readers:
            return list(readers.map(self._read, versions))

    def _read(self, version: int) -> CommitActions:
        if self._reads_files:
            return read_commit(self._store, version)
        return CommitActions(commit_info=read_commit_info(self._store, version))

    def _metadata_at(self, version: int, commit: CommitActions) -> Metadata:
        goes_on = self._last_version == version - 1  # a commit in between may have changed it
        self._metadata = commit.metadata or (self._metadata if goes_on else None) or metadata_of(self._store, version)
        self._last_version = version
        return self._metadata


def metadata_of(store: LogStore, version: int | None = None) -> Metadata:
    """The table's metadata at a version; the latest metadata if that version can no longer be reconstructed.

    Raises:
        TableNotFoundError: There is no table.
        CorruptLogError: The log cannot be read.
    """
    try:
        return LogReplay.from_store(store, version).metadata
    except (VersionNotFoundError, LogGapError):
        return LogReplay.from_store(store).metadata


def had_id(store: LogStore, table_id: str | None, version: int) -> bool:
    """Whether the table has this id, or had it at a version: REPLACE TABLE changes the id, but the versions continue.

    Raises as ``metadata_of`` does.
    """
    return any(metadata_of(store, seen).id == table_id for seen in (None, version))
