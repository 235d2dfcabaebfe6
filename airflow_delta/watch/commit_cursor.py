"""The cursor of a table's watcher, and the events that the watcher emits, each for a range of versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from airflow_delta.core.log.commit_reader import read_commit_info
from airflow_delta.core.statements.fields import shortened
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.watch.asset_uri import sanitize_uri
from airflow_delta.watch.commit_filter import CommitFilter
from airflow_delta.watch.commit_match import rows_changed
from airflow_delta.watch.commit_scan import CommitScan, LaterCommits, had_id, later_commits, metadata_of
from airflow_delta.watch.commit_watch import head_version
from airflow_delta.watch.errors import StoredProgressError
from airflow_delta.watch.start import Start

MOST_AT_ONCE = 1000
"""Most commits that one poll reads; the next poll continues from there."""

_MOST_OPERATIONS = 50  # in an event, which is stored in Airflow's database and passed to the runs it starts
_LONGEST_NAME = 100  # characters; writers of the table can choose any name


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchCursor:
    """The last version that is done: an event was emitted for it, or not needed.

    Attributes:
        version: The version; ``NO_TABLE`` before the first one.
        table_id: The id of the table at that version; None if unknown.
        size: Bytes of that version's commit file; None if the file did not exist.
        modification_time: Modification time of that file, in milliseconds since the epoch.
    """

    version: int
    table_id: str | None = None
    size: int | None = None
    modification_time: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The cursor as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Any) -> WatchCursor:
        """Parse a stored cursor; one set by a user needs only the version. Raises ``StoredProgressError``."""
        given = document if isinstance(document, Mapping) else {}
        version, table_id, size, time = (given.get(name) for name in ("version", "table_id", "size", "modification_time"))
        is_file = isinstance(size, int | None) and isinstance(time, int | None)
        if is_file and isinstance(version, int) and version >= NO_TABLE and isinstance(table_id, str | None):
            return cls(version=version, table_id=table_id, size=size, modification_time=time)
        expected = "a version from -1 on, the table_id as text, size and modification_time as numbers"
        raise StoredProgressError(found=shortened(document), expected=expected)

    def at(self, version: int, status: FileStatus | None, table_id: str | None) -> WatchCursor:
        """The cursor moved to a version."""
        return WatchCursor(
            version=version,
            table_id=table_id,
            size=status.size if status else None,
            modification_time=status.modification_time if status else None,
        )

    def is_of(self, status: FileStatus | None) -> bool:
        """Whether the commit file of the version is still the one that was seen."""
        seen = (status.size, status.modification_time) if status else (None, None)
        return (self.size, self.modification_time) == seen


@dataclass(frozen=True, slots=True, kw_only=True)
class PollResult:
    """What one poll of the log found.

    Attributes:
        cursor: The cursor once the event is stored, or at once when there is none.
        event: The payload of the event; None when there is nothing to announce.
        has_more: Whether later commits are waiting to be read.
    """

    cursor: WatchCursor
    event: dict[str, Any] | None = None
    has_more: bool = False


def first_cursor(store: LogStore, start: Start) -> WatchCursor:
    """The first cursor of a new watcher."""
    if isinstance(start, int):
        return WatchCursor(version=max(start - 1, NO_TABLE))
    if start == "earliest":
        return WatchCursor(version=NO_TABLE)
    head = head_version(store)
    if head == NO_TABLE:
        return WatchCursor(version=NO_TABLE)
    return WatchCursor(version=head).at(head, later_commits(store, head).at, metadata_of(store).id)


def poll(store: LogStore, cursor: WatchCursor, wanted: CommitFilter) -> PollResult:
    """The commits after the cursor as one event. Without new commits, this costs one listing.

    Raises:
        CorruptLogError: A commit is malformed.
        OSError: The storage cannot be reached.
    """
    found = later_commits(store, cursor.version)
    if found.head is None and (cursor.version == NO_TABLE or head_version(store) == NO_TABLE):
        return PollResult(cursor=cursor)  # no table yet, or it was deleted
    is_reset = not _is_same_table(store, cursor, found)
    if is_reset:
        cursor = WatchCursor(version=NO_TABLE)
        found = later_commits(store, NO_TABLE)
    elif found.head is not None and cursor.version != NO_TABLE and not cursor.is_of(found.at):
        cursor = cursor.at(cursor.version, found.at, cursor.table_id or metadata_of(store).id)
    if not found.commits and found.lost is None:
        return PollResult(cursor=cursor)
    return _announced(store, cursor, found, wanted, is_reset=is_reset)


def _announced(
    store: LogStore, cursor: WatchCursor, found: LaterCommits, wanted: CommitFilter, *, is_reset: bool
) -> PollResult:
    has_gap = found.lost is not None and cursor.version != NO_TABLE
    versions = list(islice(found.commits, MOST_AT_ONCE))
    scan = CommitScan(store, wanted, with_files=True)
    matches = {version: commit for version, commit in scan.matches(versions) if commit is not None}
    has_more = len(versions) < len(found.commits)
    last = versions[-1] if has_more else max([*versions, found.head or 0])
    table_id = scan.table_id or cursor.table_id or metadata_of(store).id  # REPLACE TABLE changes the id
    moved = cursor.at(last, found.commits.get(last), table_id)
    if not (matches or has_gap or is_reset):
        return PollResult(cursor=moved, has_more=has_more)
    to_version = last if has_gap or is_reset else max(matches)
    infos = {version: commit.commit_info for version, commit in matches.items() if commit.commit_info}
    status = found.commits.get(to_version)
    info = infos.get(to_version) or (read_commit_info(store, to_version) if status else None)
    in_commit_time = info.in_commit_timestamp if info else None
    event = {
        "table": sanitize_uri(store.table_uri),
        "from_version": cursor.version + 1 if has_gap else min(versions if is_reset else matches, default=last),
        "to_version": to_version,
        "timestamp": in_commit_time or (status.modification_time if status else None),
        "operations": sorted({info.operation[:_LONGEST_NAME] for info in infos.values()})[:_MOST_OPERATIONS],
        "commits": len(matches),
        "rows": sum(map(rows_changed, matches.values())),
        "gap": has_gap,
        "reset": is_reset,
    }
    return PollResult(cursor=moved, event=event, has_more=has_more)


def _is_same_table(store: LogStore, cursor: WatchCursor, found: LaterCommits) -> bool:
    """Whether the log continues from the cursor; False if the table was created again at its location."""
    if cursor.version == NO_TABLE or cursor.table_id is None:  # no version was seen yet
        return True
    if found.head is None:
        return False
    return cursor.is_of(found.at) or had_id(store, cursor.table_id, cursor.version)
