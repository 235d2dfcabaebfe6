"""Log cleanup: deletes everything before the newest checkpoint that is older than the retention.

The *barrier* is that checkpoint, or an older one if a run has pinned an older version. The barrier, the commit of its version
and everything later are kept, so that every version from it on can still be rebuilt. Everything earlier is deleted, oldest
first: if a cleanup is killed, the log begins somewhere before the barrier, and the next cleanup finishes the work.

Protocol: PROTOCOL.md, "Metadata Cleanup"; protocol_rfcs, "Checkpoint Protection".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from airflow_delta.core.errors import DeltaError, TimestampOutOfRangeError
from airflow_delta.core.log.file_names import (
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    STAGED_COMMITS_DIRECTORY,
    LogFileKind,
    parse_name,
    staged_version,
)
from airflow_delta.core.log.history import CommitTimes, InCommitTimestamps
from airflow_delta.core.log.last_checkpoint import hinted_version
from airflow_delta.core.log.log_replay import LogReplay
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.log.managed_commits import Maintenance, check_permitted, managing_catalog
from airflow_delta.core.operations.checkpoints.sidecar_references import sidecars_of
from airflow_delta.core.operations.pins import read_pin_folder, release_expired
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.table_features.support import check_writable
from airflow_delta.core.transaction.table_properties import LOG_RETENTION, check_interval, log_retention, protected_before

_DAY = 86_400_000
_TEMPORARY = re.compile(r"/\.[^/]+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$")
_AT_ONCE = 1_000  # paths in one delete request: a storage may delete those of one request in any order
_CHECKPOINTS = {LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.CHECKPOINT_PART, LogFileKind.V2_CHECKPOINT}


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """The files that were deleted, or in a dry run would be.

    Attributes:
        barrier: Version of the checkpoint from which on everything is kept; None if none is old enough, and no file of the log
            was deleted.
        log_files: Commits, checkpoints, checksums, compacted and staged commits; paths below the table's root, in order.
        sidecars: Sidecars that no checkpoint references any more; paths, likewise.
        temporaries: Temporary files of killed writers on a local disk; paths, likewise.
    """

    barrier: int | None
    log_files: tuple[str, ...] = ()
    sidecars: tuple[str, ...] = ()
    temporaries: tuple[str, ...] = ()


def clean_up_log(log: TableLog, *, cutoff: int | None = None, dry_run: bool = False) -> CleanupResult:
    """Delete log files that are older than ``delta.logRetentionDuration`` and that no version to be kept needs.

    Args:
        log: The table.
        cutoff: Age limit in milliseconds since the epoch; None is the last midnight (UTC) minus the table's retention.
        dry_run: Only report what would be deleted; for sidecars, those that no checkpoint references at present.

    Raises:
        MaintenanceNotPermittedError: The table is catalog-managed, and the catalog does not permit this to clients.
        UnsupportedWriterFeatureError: The table requires an unsupported writer feature.
        InvalidTablePropertyError: The table's retention is invalid.
        As ``DeltaLog.snapshot``.
    """
    snapshot, now = log.refresh(), log.clock()
    check_permitted(log.store, Maintenance.LOG_CLEANUP)
    check_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    if cutoff is None:
        check_interval(snapshot.metadata.configuration, LOG_RETENTION)
        cutoff = _midnight(now - log_retention(snapshot.metadata.configuration))
    barrier = _barrier(log.store, snapshot, _newest_until(log.store, snapshot, cutoff))
    expired = tuple(_expired(log.store, barrier)) if barrier is not None else ()
    if expired and (pinned := _oldest_pinned(log.store, now)) is not None and pinned < (barrier or 0):
        barrier = _barrier(log.store, snapshot, pinned)
        expired = tuple(_expired(log.store, barrier)) if barrier is not None else ()
    if not dry_run:
        if expired and (hinted_version(log.store) or 0) < (barrier or 0):
            log.store.delete([LAST_CHECKPOINT])  # it would point readers to a checkpoint that is about to be deleted
        _delete(log.store, expired)
    sidecars = tuple(_unreferenced_sidecars(log.store, _midnight(now) - _DAY))
    temporaries = tuple(_temporaries(log.store, _midnight(now) - _DAY))
    if not dry_run:
        log.store.delete(sidecars)
        release_expired(log.store, now)
        _delete(log.store, temporaries)
    return CleanupResult(barrier=barrier, log_files=expired, sidecars=sidecars, temporaries=temporaries)


def _midnight(time: int) -> int:
    """The last midnight (UTC) at or before this time, in milliseconds since the epoch."""
    return time - time % _DAY


def _newest_until(store: LogStore, snapshot: Snapshot, cutoff: int) -> int:
    """The newest version committed at or before ``cutoff``; -1 if there is no such version."""
    try:
        return CommitTimes(store, InCommitTimestamps.from_metadata(snapshot.metadata)).last_until(cutoff)
    except TimestampOutOfRangeError:
        return -1


def _oldest_pinned(store: LogStore, now: int) -> int | None:
    """The oldest pinned version that can still be opened; None without one."""
    earliest = list_log(store).earliest_readable_version()
    return min((version for version in read_pin_folder(store).versions(now) if version >= earliest), default=None)


def _barrier(store: LogStore, snapshot: Snapshot, version: int) -> int | None:
    """Version of the newest readable checkpoint at or before ``version``.

    None also if the table's old checkpoints are protected, and may only be deleted together with newer ones.
    """
    while version >= 0:
        try:
            checkpoint = LogReplay.from_store(store, version).segment.checkpoint
        except DeltaError:  # no checkpoint can be read, and the first commits are gone
            return None
        if checkpoint is None:
            return None
        if all(store.exists(path) for path in sidecars_of(store, [file.path for file in checkpoint.files])):
            return checkpoint.version if checkpoint.version >= protected_before(snapshot.metadata.configuration) else None
        version = checkpoint.version - 1
    return None


def _expired(store: LogStore, barrier: int) -> Iterator[str]:
    """The files before the barrier, in the order in which they can be deleted safely.

    Compacted files are redundant, so they go first; then version by version, a checkpoint after the commits that it covers.
    """
    found = []
    for status in store.list_from(LOG_DIRECTORY):
        name = parse_name(status.path.rpartition("/")[2])
        is_compacted = name is not None and name.kind is LogFileKind.COMPACTED_COMMITS
        if name and (name.version < barrier or (is_compacted and name.version == barrier)):
            found.append((not is_compacted, name.version, name.kind in _CHECKPOINTS, status.path))
    yield from (path for *_, path in sorted(found))
    if managing_catalog(store):
        staged = (
            (file.path, staged_version(file.path.rpartition("/")[2])) for file in store.list_from(STAGED_COMMITS_DIRECTORY)
        )
        yield from (path for path, version in staged if version is not None and version <= barrier)  # barrier is published


def _temporaries(store: LogStore, before: int) -> Iterator[str]:
    """Temporary files of log writes (see ``LocalLogStore``) that were last modified before that time."""
    hidden = takewhile(lambda file: "/." in file.path, store.list_from(LOG_DIRECTORY, "."))  # sorts before digits
    return (file.path for file in hidden if _TEMPORARY.search(file.path) and file.modification_time < before)


def _delete(store: LogStore, paths: Sequence[str]) -> None:
    for start in range(0, len(paths), _AT_ONCE):
        store.delete(paths[start : start + _AT_ONCE])


def _unreferenced_sidecars(store: LogStore, before: int) -> Iterator[str]:
    """Sidecars last modified before that time and not referenced by any checkpoint; none if a checkpoint cannot be read."""
    old = [file.path for file in store.list_from(SIDECAR_DIRECTORY) if file.modification_time < before]
    if not old:
        return
    paths = [file.path for file in store.list_from(LOG_DIRECTORY)]
    names = ((path, parse_name(path.rpartition("/")[2])) for path in paths)
    try:
        needed = set(sidecars_of(store, [path for path, name in names if name and name.kind in _CHECKPOINTS]))
    except DeltaError:
        return
    yield from (path for path in old if path not in needed)
