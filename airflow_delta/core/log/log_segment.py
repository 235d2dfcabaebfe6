"""Which log files make up a version of the table.

Protocol: PROTOCOL.md, "Delta Log Entries", "Checkpoints"; facts of other engines are in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from airflow_delta.core.errors import LogGapError, TableNotFoundError, UnsupportedReaderFeatureError, VersionNotFoundError
from airflow_delta.core.log.file_names import (
    END_OF_VERSIONS,
    LOG_DIRECTORY,
    LogFileKind,
    commit_path,
    parse_name,
    version_prefix,
)
from airflow_delta.core.log.last_checkpoint import hinted_version
from airflow_delta.core.storage.log_store import FileStatus, LogStore

_LISTINGS = 10  # More than a writer as fast as the listing needs to be overtaken.

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete classic checkpoint.

    Attributes:
        files: All its parts in order; one file unless it is a multi-part checkpoint.
    """

    version: int
    files: tuple[FileStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """What one listing of the log found, less what readers ignore.

    Attributes:
        commits: Commit files by version, ascending.
        checkpoints: Complete ones, ascending by version, then by preference.
        v2_checkpoints: Versions of checkpoints that need a feature to be read.
    """

    commits: Mapping[int, FileStatus]
    checkpoints: tuple[Checkpoint, ...]
    v2_checkpoints: tuple[int, ...]

    @property
    def latest_version(self) -> int | None:
        """The newest version that any file is about; None when there is no such file."""
        return max([*self.commits, *(each.version for each in self.checkpoints), *self.v2_checkpoints], default=None)

    def earliest_readable_version(self) -> int:
        """The oldest version that can be rebuilt: 0 or a checkpoint, with every later commit there.

        Where there is none, the newest version; asking for it then tells what is missing.
        """
        latest = self.latest_version or 0
        starts = sorted({0 if 0 in self.commits else latest, *(each.version for each in self.checkpoints)})
        whole = (start for start in starts if all(version in self.commits for version in range(start + 1, latest + 1)))
        return next(whole, latest)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The files from which one version is rebuilt.

    Guaranteed: the commits are contiguous; they begin right after the checkpoint, or at version 0 without one; they end at
    ``version``, or there are none and the checkpoint is of ``version``.

    Attributes:
        commits: Commits after the checkpoint, by version, ascending.
        commit_of_version: The commit file of ``version`` itself; None where only its checkpoint is left.
    """

    table: str
    version: int
    checkpoint: Checkpoint | None
    commits: Mapping[int, FileStatus]
    commit_of_version: FileStatus | None

    def is_part_of(self, listing: LogListing) -> bool:
        """Whether the log is still the one that this belongs to: not when the table was dropped, or made anew at its place."""
        if self.commit_of_version:
            return listing.commits.get(self.version) == self.commit_of_version
        return self.checkpoint in listing.checkpoints

    def __post_init__(self) -> None:
        first = self.checkpoint.version + 1 if self.checkpoint else 0
        for version in range(first, self.version + 1):
            if version not in self.commits:
                later = "there are later ones" if version < self.version else "it was asked for"
                raise LogGapError(table=self.table, file=commit_path(version), detail=later)
        if len(self.commits) != self.version + 1 - first:
            raise ValueError(f"commits {min(self.commits)}..{max(self.commits)} do not make up {first}..{self.version}")


def list_log(store: LogStore, start: int = 0) -> LogListing:
    """The log files of the version ``start`` and later, in one listing."""
    commits: dict[int, FileStatus] = {}
    classic: dict[int, FileStatus] = {}
    parts: dict[tuple[int, int], dict[int, FileStatus]] = {}
    v2: list[int] = []
    for status in store.list_from(LOG_DIRECTORY, version_prefix(start)):
        base = status.path.rpartition("/")[2]
        if base >= END_OF_VERSIONS:
            break
        name = parse_name(base)
        if name is None or (not status.size and name.kind is not LogFileKind.COMMIT):  # what a crashed writer left
            continue
        match name.kind:
            case LogFileKind.COMMIT:
                commits[name.version] = status
            case LogFileKind.CLASSIC_CHECKPOINT:
                classic[name.version] = status
            case LogFileKind.CHECKPOINT_PART:
                parts.setdefault((name.version, name.parts), {})[name.part] = status
            case LogFileKind.V2_CHECKPOINT:
                v2.append(name.version)
    checkpoints = [Checkpoint(version=version, files=(status,)) for version, status in classic.items()]
    checkpoints += [
        Checkpoint(version=version, files=tuple(found[part] for part in range(1, count + 1)))
        for (version, count), found in parts.items()
        if found.keys() == set(range(1, count + 1))
    ]
    checkpoints.sort(key=lambda each: (each.version, len(each.files)))
    return LogListing(commits=commits, checkpoints=tuple(checkpoints), v2_checkpoints=tuple(v2))


def find_segment(store: LogStore, version: int | None = None, *, broken: Collection[Checkpoint] = ()) -> LogSegment:
    """The files that make up ``version`` (the latest one when None).

    Args:
        store: The table.
        version: The version wanted.
        broken: Checkpoints that turned out to be unreadable, and are left out.

    Raises:
        TableNotFoundError: There is neither a commit nor a checkpoint.
        VersionNotFoundError: The log does not reach from a start to ``version``.
        LogGapError: A commit is missing between others.
        UnsupportedReaderFeatureError: Only a v2 checkpoint could tell.
    """
    try:
        return settled(store, lambda: _find_segment(store, version, broken))
    except LogGapError:
        _explain_gap(store, version, broken)
        raise


def settled(store: LogStore, find: Callable[[], Found]) -> Found:
    """What ``find`` finds, asked again while the commit that it misses came when the listing was past its place.

    Raises:
        LogGapError: As ``find`` raises it, for a commit that is not there.
    """
    for _ in range(_LISTINGS):
        try:
            return find()
        except LogGapError as error:
            if not store.exists(error.file):
                raise
    return find()


def _find_segment(store: LogStore, version: int | None, broken: Collection[Checkpoint]) -> LogSegment:
    hint = None if broken else hinted_version(store)
    start = hint if hint is not None and (version is None or hint <= version) else 0
    listing = list_log(store, start)
    checkpoint = _newest_checkpoint(listing, version, broken)
    if checkpoint is None and start:  # the hint was wrong
        listing = list_log(store)
        checkpoint = _newest_checkpoint(listing, version, broken)
    if listing.latest_version is None:
        raise TableNotFoundError(table=store.table_uri)
    wanted = listing.latest_version if version is None else version
    if not 0 <= wanted <= listing.latest_version:
        raise _version_not_found(store, wanted, listing if not start else list_log(store))
    return _segment(store.table_uri, wanted, checkpoint, listing)


def _newest_checkpoint(listing: LogListing, version: int | None, broken: Collection[Checkpoint]) -> Checkpoint | None:
    usable = [each for each in listing.checkpoints if each not in broken and (version is None or each.version <= version)]
    return usable[-1] if usable else None


def _segment(table: str, version: int, checkpoint: Checkpoint | None, listing: LogListing) -> LogSegment:
    first = checkpoint.version + 1 if checkpoint else 0
    return LogSegment(
        table=table,
        version=version,
        checkpoint=checkpoint,
        commits={each: status for each, status in listing.commits.items() if first <= each <= version},
        commit_of_version=listing.commits.get(version),
    )


def _explain_gap(store: LogStore, version: int | None, broken: Collection[Checkpoint]) -> None:
    """Raise what is more to the point than a missing file: a version cleaned up long ago, or a checkpoint of another kind."""
    listing = list_log(store)
    wanted = listing.latest_version or 0 if version is None else version
    if wanted < listing.earliest_readable_version():
        raise _version_not_found(store, wanted, listing)
    checkpoint = _newest_checkpoint(listing, version, broken)
    after = checkpoint.version if checkpoint else -1
    if any(after < each <= wanted for each in listing.v2_checkpoints):
        raise UnsupportedReaderFeatureError(table=store.table_uri, features=("v2Checkpoint",))


def _version_not_found(store: LogStore, wanted: int, listing: LogListing) -> VersionNotFoundError:
    return VersionNotFoundError(
        table=store.table_uri,
        version=wanted,
        earliest=listing.earliest_readable_version(),
        latest=listing.latest_version or 0,
    )


def holds_table(store: LogStore) -> bool:
    """Whether there is any commit or checkpoint."""
    return any(list_log(store, start).latest_version is not None for start in (hinted_version(store) or 0, 0))


def find_later_commits(store: LogStore, segment: LogSegment) -> LogSegment | None:
    """The segment with the commits that came since, from one short listing; the very same when there are none.

    None when the log does not go on from the segment: its last commit was cleaned up, or the table is another one by now.

    Raises:
        LogGapError: A commit is missing between others.
    """
    return settled(store, lambda: _carried_on(store, segment))


def _carried_on(store: LogStore, segment: LogSegment) -> LogSegment | None:
    listing = list_log(store, segment.version)
    if not segment.is_part_of(listing):
        return None
    newer = {version: status for version, status in listing.commits.items() if version > segment.version}
    if not newer:
        return segment
    version = max(newer)
    return LogSegment(
        table=segment.table,
        version=version,
        checkpoint=segment.checkpoint,
        commits={**segment.commits, **newer},
        commit_of_version=newer[version],
    )
