"""Which log files make up a version of the table.

Protocol: PROTOCOL.md, "Delta Log Entries", "Checkpoints", "Log Compaction Files"; the tests record how other engines behave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from airflow_delta.core.errors import DeltaError, LogGapError, TableNotFoundError, VersionNotFoundError
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

_LISTINGS = 10  # a writer would have to be as fast as the listing to exceed this

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        files: All of its files in order; more than one only for a multi-part checkpoint. Sidecars are not included: only the
            checkpoint file itself lists them.
    """

    version: int
    files: tuple[FileStatus, ...]

    @property
    def is_manifest(self) -> bool:
        """Whether its name is that of a v2 checkpoint."""
        name = parse_name(self.files[0].path.rpartition("/")[2])
        return name is not None and name.kind is LogFileKind.V2_CHECKPOINT

    @property
    def preference(self) -> tuple[int, bool, int, str]:
        """Of several checkpoints the greatest is read: the newest; of one version, a v2 one, then a multi-part one."""
        return self.version, self.is_manifest, len(self.files), self.files[0].path


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedCommits:
    """A log compaction file, which covers the commits ``start`` to ``end``."""

    start: int
    end: int
    status: FileStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """What a listing of the log found, without files that readers ignore.

    Attributes:
        commits: Commit files by version, ascending.
        checkpoints: Complete checkpoints, in ascending order of preference.
        compacted: Compacted files that cover more than one commit, ascending.
    """

    commits: Mapping[int, FileStatus]
    checkpoints: tuple[Checkpoint, ...]
    compacted: tuple[CompactedCommits, ...]

    @property
    def latest_version(self) -> int | None:
        """The newest version that any file covers; None if there is no such file."""
        return max([*self.commits, *(checkpoint.version for checkpoint in self.checkpoints)], default=None)

    def earliest_readable_version(self) -> int:
        """The oldest version that can be rebuilt: version 0 or one with a checkpoint, from which on no commit is missing.

        If no version can, the newest version, because opening it raises an error that names what is missing.
        """
        latest = self.latest_version or 0
        ranges = self.readable_ranges()
        return ranges[-1].start if ranges and latest in ranges[-1] else latest

    def readable_ranges(self) -> list[range]:
        """The versions that can be rebuilt, ascending.

        Each range starts with version 0 or one with a checkpoint, and stops where a commit is missing. There is more than one
        range only if commits are missing between others.
        """
        starts = {checkpoint.version for checkpoint in self.checkpoints} | ({0} & self.commits.keys())
        ranges: list[range] = []
        for start in sorted(starts):
            if not ranges or start >= ranges[-1].stop:
                ranges.append(range(start, next(version for version in count(start + 1) if version not in self.commits)))
        return ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The files from which one version is rebuilt.

    Guarantees: the commits are contiguous; they begin right after the checkpoint, or at version 0 without one; they end at
        ``version``, or there are none and the checkpoint is of ``version``.

    Attributes:
        commits: Commits after the checkpoint, by version, ascending.
        compacted: Compacted files that can be read instead of some of these commits; ascending, without overlaps.
        commit_of_version: The commit file of ``version`` itself; None if only its checkpoint is left.
    """

    table: str
    version: int
    checkpoint: Checkpoint | None
    commits: Mapping[int, FileStatus]
    commit_of_version: FileStatus | None
    compacted: tuple[CompactedCommits, ...] = ()

    def is_part_of(self, listing: LogListing) -> bool:
        """Whether the log still contains this segment; not if the table was dropped, or replaced at the same place."""
        if self.commit_of_version:
            return listing.commits.get(self.version) == self.commit_of_version
        return self.checkpoint in listing.checkpoints

    def __post_init__(self) -> None:
        first = self.checkpoint.version + 1 if self.checkpoint else 0
        for version in range(first, self.version + 1):
            if version not in self.commits:
                later = "later commits exist" if version < self.version else "it was requested"
                raise LogGapError(table=self.table, file=commit_path(version), detail=later)
        if len(self.commits) != self.version + 1 - first:
            raise ValueError(f"commits {min(self.commits)}..{max(self.commits)} do not make up {first}..{self.version}")


def list_log(store: LogStore, start: int = 0) -> LogListing:
    """The log files of version ``start`` and later, in one listing."""
    commits: dict[int, FileStatus] = {}
    classic: dict[int, FileStatus] = {}
    parts: dict[tuple[int, int], dict[int, FileStatus]] = {}
    v2: list[Checkpoint] = []
    compacted: list[CompactedCommits] = []
    for status in store.list_from(LOG_DIRECTORY, version_prefix(start)):
        base = status.path.rpartition("/")[2]
        if base >= END_OF_VERSIONS:
            break
        name = parse_name(base)
        if name is None or (not status.size and name.kind is not LogFileKind.COMMIT):  # left by a crashed writer
            continue
        match name.kind:
            case LogFileKind.COMMIT:
                commits[name.version] = status
            case LogFileKind.CLASSIC_CHECKPOINT:
                classic[name.version] = status
            case LogFileKind.CHECKPOINT_PART:
                parts.setdefault((name.version, name.parts), {})[name.part] = status
            case LogFileKind.V2_CHECKPOINT:
                v2.append(Checkpoint(version=name.version, files=(status,)))
            case LogFileKind.COMPACTED_COMMITS if name.end is not None and name.end > name.version:
                compacted.append(CompactedCommits(start=name.version, end=name.end, status=status))
    checkpoints = [Checkpoint(version=version, files=(status,)) for version, status in classic.items()]
    checkpoints += [
        Checkpoint(version=version, files=tuple(found[part] for part in sorted(found)))
        for (version, count), found in parts.items()
        if len(found) == count  # every entry is one of them; the number in the name is not trusted
    ]
    checkpoints = sorted([*checkpoints, *v2], key=lambda checkpoint: checkpoint.preference)
    return LogListing(commits=commits, checkpoints=tuple(checkpoints), compacted=tuple(compacted))


def find_segment(store: LogStore, version: int | None = None, *, broken: Collection[Checkpoint] = ()) -> LogSegment:
    """The files that make up ``version`` (the latest one when None).

    Args:
        store: The table's log store.
        version: The version wanted.
        broken: Checkpoints known to be unreadable, which are left out.

    Raises:
        TableNotFoundError: The log holds neither a commit nor a checkpoint.
        VersionNotFoundError: ``version`` does not exist, or was cleaned up.
        LogGapError: A commit that ``version`` needs is missing between others.
    """
    try:
        return find_settled(store, lambda: _find_segment(store, version, broken))
    except LogGapError:
        _refuse_cleaned_up(store, version)
        raise


def find_settled(store: LogStore, find: Callable[[], Found]) -> Found:
    """The result of ``find``, repeated if the missing commit was written after the listing had passed its place.

    Raises:
        LogGapError: As of ``find``, for a commit that does not exist.
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
    usable = [
        checkpoint
        for checkpoint in listing.checkpoints
        if checkpoint not in broken and (version is None or checkpoint.version <= version)
    ]
    return usable[-1] if usable else None


def _segment(table: str, version: int, checkpoint: Checkpoint | None, listing: LogListing) -> LogSegment:
    first = checkpoint.version + 1 if checkpoint else 0
    return LogSegment(
        table=table,
        version=version,
        checkpoint=checkpoint,
        commits={
            commit_version: status for commit_version, status in listing.commits.items() if first <= commit_version <= version
        },
        commit_of_version=listing.commits.get(version),
        compacted=_chosen(listing.compacted, first, version),
    )


def _chosen(compacted: Iterable[CompactedCommits], first: int, last: int) -> tuple[CompactedCommits, ...]:
    """Compacted files within these versions, without overlaps: chosen greedily from the left, the longest for each start."""
    chosen: list[CompactedCommits] = []
    for file in sorted(compacted, key=lambda file: (file.start, -file.end)):
        if file.start >= first and file.end <= last:
            chosen.append(file)
            first = file.end + 1
    return tuple(chosen)


def _refuse_cleaned_up(store: LogStore, version: int | None) -> None:
    """Raise a clearer error than a missing file if the version was cleaned up long ago.

    Then it lies before all versions that can be rebuilt; or, as an interrupted cleanup may leave older checkpoints, its own
    commit is gone, too, and it lies before the checkpoint that the newest version begins with.
    """
    listing = list_log(store)
    ranges = listing.readable_ranges()
    if version is None or not ranges:
        return
    is_gone = version not in listing.commits and version < ranges[-1].start and listing.latest_version in ranges[-1]
    if is_gone or version < ranges[0].start:
        raise _version_not_found(store, version, listing)


def _version_not_found(store: LogStore, wanted: int, listing: LogListing) -> DeltaError:
    """The error for a version before or after all those of the log; names the readable ones that are nearest to it."""
    ranges = listing.readable_ranges()
    if not ranges:
        return LogGapError(table=store.table_uri, file=commit_path(0), detail="later commits exist, and no checkpoint")
    nearest = ranges[0] if wanted < ranges[0].start else ranges[-1]
    return VersionNotFoundError(table=store.table_uri, version=wanted, earliest=nearest.start, latest=nearest[-1])


def holds_table(store: LogStore) -> bool:
    """Whether the log holds any commit or checkpoint."""
    return any(list_log(store, start).latest_version is not None for start in (hinted_version(store) or 0, 0))


def find_later_commits(store: LogStore, segment: LogSegment) -> LogSegment | None:
    """The segment extended by the commits made since, from one short listing; the same object if there are none.

    None if the log does not continue the segment: its last commit was cleaned up, or the table has been replaced.

    Raises:
        LogGapError: A commit is missing between others.
    """
    return find_settled(store, lambda: _carried_on(store, segment))


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
