"""Staging a commit, and publishing or discarding it later: by another task, another process, another day.

Publishing checks the document against every commit since its base version, as any transaction, and commits it with its id as
token: however often it is published, there is one commit. A commit that was decided (see ``staged_folder``) and not made,
because the process died, is made by the next one that publishes.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import CommitInfo, Origin
from airflow_delta.core.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeltaError,
    InvalidCommitError,
    StagedCommitDamagedError,
    StagedCommitDiscardedError,
    StagedCommitExpiredError,
    StagedCommitNotFoundError,
    StagedCommitOutdatedError,
    StagedCommitPendingError,
    StagedCommitPublishedError,
    TableExistsError,
    TokenHistoryLostError,
    VersionNotFoundError,
)
from airflow_delta.core.log.history import find_commit
from airflow_delta.core.operations.bulk_delete import delete_in_bulk
from airflow_delta.core.operations.staged_folder import (
    AREA,
    MOST_BYTES,
    decide,
    decision_of,
    described,
    handle_of,
    load,
    missing_files,
    staged_files,
    staged_path,
)
from airflow_delta.core.operations.staged_store import StagedStore
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.operations.unneeded_files import named_paths
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.snapshot.stored_deletion_vectors import StoredDeletionVectors
from airflow_delta.core.statements.publish import StagedHandle
from airflow_delta.core.table_features.feature import columns_of
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.commit_loop import Rebased, rebase
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.core.transaction.conflict_checker import check_conflicts
from airflow_delta.core.transaction.in_commit_timestamps import are_enabled, with_time
from airflow_delta.core.transaction.staged_commit import StagedCommit
from airflow_delta.core.transaction.table_properties import deleted_file_retention
from airflow_delta.core.transaction.winning_commit import WinningCommit

PUBLISHED_BY_KEY = "published_by"
"""Key of a commit's record with the run that published it; the other members are of the run that staged it."""

_HOUR = 3_600_000
_LONGEST = 365 * 24 * _HOUR

_logger = logging.getLogger(__name__)


def stage(log: TableLog, id: str, attempt: CommitAttempt) -> tuple[dict[str, Any], bool]:  # noqa: A002
    """Write down an attempt that holds behind its read version; its handle, and whether the id was staged before.

    Raises:
        StagedCommitExpiredError: The table keeps files that it does not name for too short a time.
        InvalidCommitError: It has so many files that its document would be longer than 1 GiB, or it is a rewrite in bins.
        CommitStateUnknownError: The storage does not answer, or refuses what may have been written: the document may be there.
        StorageAccessError: The storage refuses. Nothing was written.
    """
    if attempt.bins is not None:
        raise InvalidCommitError(table=attempt.table, detail="a rewrite in bins cannot be staged")
    info = attempt.actions.commit_info or CommitInfo(timestamp=log.clock(), operation="UNKNOWN")
    actions = replace(attempt.actions, commit_info=replace(info, origin=replace(info.origin, token=id)))
    now = log.clock()
    staged = StagedCommit.of(replace(attempt, actions=actions), id=id, created=now, expires=now)
    staged = replace(staged, expires=_expiry(staged, attempt, now))
    if staged.expires <= now:
        detail = "its files are as old as delta.deletedFileRetentionDuration allows, so that vacuums may delete them"
        raise StagedCommitExpiredError(table=attempt.table, id=id, detail=detail)
    content = staged.to_content()
    if len(content) > MOST_BYTES:
        raise InvalidCommitError(table=attempt.table, detail=f"its actions have {len(content)} bytes, too many to be staged")
    try:
        log.store.write_if_absent(staged_path(id), content)
    except FileExistsError:  # another try, or this one, whose answer was lost
        if _document(log, attempt, id) != content:
            return handle_of(log.store, StagedHandle(table=log.table_uri, id=id)), True
    except (OSError, DeltaError) as error:  # refused or not: an earlier sending may have arrived
        if isinstance(error, OSError) or _may_be_there(log, id):
            raise _unknown(attempt, id, error) from error
        raise
    return described(log.table_uri, staged, content), False


def _may_be_there(log: TableLog, id: str) -> bool:  # noqa: A002
    try:
        return log.store.exists(staged_path(id))
    except (OSError, DeltaError):
        return True


def _document(log: TableLog, attempt: CommitAttempt, id: str) -> bytes:  # noqa: A002
    """The document that is there. Raises ``CommitStateUnknownError`` where it cannot be read: it may be of this attempt."""
    try:
        return log.store.read(staged_path(id))
    except (OSError, DeltaError) as error:
        raise _unknown(attempt, id, error) from error


def _unknown(attempt: CommitAttempt, id: str, error: Exception) -> CommitStateUnknownError:  # noqa: A002
    """The error of a document that may be there, and name the files of the attempt, which must stay then."""
    info, detail = attempt.actions.commit_info, f"{staged_path(id)}: {error!r}"
    return CommitStateUnknownError(
        table=attempt.table,
        version=attempt.read_version + 1,
        txn_id=(info and info.txn_id) or "",
        detail=detail,
    )


def _expiry(staged: StagedCommit, attempt: CommitAttempt, now: int) -> int:
    """Until when every vacuum spares its files, less what publishing may take and clocks may differ."""
    retention = min(deleted_file_retention(attempt.metadata_after.configuration), _LONGEST)
    oldest = pc.min(staged.new_adds["modification_time"]).as_py()
    return min(now, now if oldest is None else oldest) + retention - min(_HOUR, retention // 10)


def staged_store(log: TableLog, handle: StagedHandle) -> StagedStore:
    """The store of the table as it will be, seen from the base version: what others have committed since is not in it.

    Raises:
        StagedCommitNotFoundError: There is no such document.
        StagedCommitDamagedError: It cannot be read.
        StagedCommitDiscardedError: It was discarded; its files are gone.
    """
    staged, content = load(log.store, handle)
    if decision_of(log.store, staged.id) == "discard":
        raise StagedCommitDiscardedError(table=log.table_uri, id=staged.id)
    document = log.store.status(staged_path(staged.id))
    if document is None:
        raise StagedCommitNotFoundError(table=log.table_uri, id=staged.id)
    return StagedStore(log.store, document, content, staged.base_version)


# -- publishing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Publication:
    """A staged commit that can be published, as far as the log shows; nothing is written yet.

    Attributes:
        log: Of the table.
        handle: Of what is staged.
        done: The commit that has published it; None where there is none.
        base: The version behind which it was staged; None for a table that is to be created.
        attempt: It, rebased behind the newest version.
        conflicts: The commits that it was rebased over.
        origin: The run that publishes it.
    """

    log: TableLog
    handle: StagedHandle
    origin: Origin
    done: CommitResult | None = None
    base: Snapshot | None = None
    attempt: CommitAttempt | None = None
    conflicts: tuple[dict[str, Any], ...] = ()

    def commit(self) -> CommitResult:
        """Make the commit, or return the one that was made before.

        Raises:
            StagedCommitDiscardedError: It was discarded in the meantime.
            StagedCommitOutdatedError: Another commit has come in between, and forbids it.
            As ``OptimisticTransaction.commit``.
        """
        if self.done is not None:
            return self.done
        if self.attempt is None or self.handle.id is None:
            version = self.log.refresh().version if self.log.exists() else -1
            return CommitResult(version=version, timestamp=self.log.clock(), read_version=version, committed=False)
        table, id = self.log.table_uri, self.handle.id  # noqa: A001
        if decide(self.log.store, id, "publish", self.origin) == "discard":
            raise StagedCommitDiscardedError(table=table, id=id)
        if self.base is not None:
            transaction = self.log.start_transaction(self.base)
        else:
            transaction = self.log.create_transaction(self.attempt.metadata_after, self.attempt.protocol_after)
        try:
            made = transaction.publish(self.attempt)
        except (CommitConflictError, TableExistsError) as error:
            raise _outdated(table, id, error) from error
        return replace(made, conflicts=(*self.conflicts, *made.conflicts))


def plan_publication(log: TableLog, handle: StagedHandle, origin: Origin) -> Publication:
    """Check that what is staged can be published now.

    Args:
        log: Of the table; there may be no table.
        handle: Of what is staged.
        origin: The run that publishes it; its record goes into that of the commit, under ``published_by``.

    Raises:
        StagedCommitNotFoundError: There is no such document, and no commit of it.
        StagedCommitDamagedError: The document cannot be read, or is not that of the handle.
        StagedCommitDiscardedError: It was discarded.
        StagedCommitExpiredError: It has expired, or its files are gone.
        StagedCommitOutdatedError: A commit since its base version forbids it.
        TokenHistoryLostError: Whether it was published before cannot be known any more.
    """
    publication = Publication(log=log, handle=handle, origin=origin)
    if handle.id is None:
        return publication
    try:
        staged, _ = load(log.store, handle)
    except StagedCommitNotFoundError:
        done = _published(log, handle)
        if done is None:
            raise
        return replace(publication, done=done)
    found = _published(log, replace(handle, base_version=staged.base_version))
    if found is not None:
        return replace(publication, done=found)
    base = _base(log, staged)
    rebased = _rebase(log, staged, base, origin)
    if rebased.own is not None and rebased.own.actions.commit_info is not None:
        done = _result(rebased.own.version, staged.base_version, rebased.own.actions.commit_info)
        return replace(publication, done=done)
    missing = missing_files(log.store, staged_files(staged, log.table_uri))
    if decision_of(log.store, staged.id) == "discard":
        raise StagedCommitDiscardedError(table=log.table_uri, id=staged.id)
    if staged.expires <= log.clock():
        raise _expired(log, staged, f"it expired at {staged.expires} ms")
    if missing:
        raise _expired(log, staged, f"{len(missing)} of its files are gone, for example {missing[0]!r}")
    return replace(publication, base=base, attempt=rebased.attempt, conflicts=rebased.conflicts)


def check_together(publications: Iterable[Publication]) -> None:
    """Return if those of one table can be published one after the other.

    Raises:
        StagedCommitOutdatedError: One of them forbids a later one.
    """
    winners: dict[str, list[WinningCommit]] = {}
    for publication in publications:
        attempt, table = publication.attempt, publication.log.table_uri
        if attempt is None:
            continue
        before, id = winners.setdefault(table, []), publication.handle.id or ""  # noqa: A001
        if attempt.read_version < 0 and before:
            raise _outdated(table, id, TableExistsError(table=table, version=0))
        try:
            for winner in before:
                attempt = check_conflicts(attempt, winner)
        except CommitConflictError as error:
            raise _outdated(table, id, error) from error
        before.append(WinningCommit(version=attempt.read_version + 1 + len(before), actions=attempt.actions))


def _published(log: TableLog, handle: StagedHandle) -> CommitResult | None:
    """The commit that has published it; None where there is none."""
    if handle.id is None or handle.base_version is None or not log.exists():
        return None
    entry = find_commit(log.store, handle.id, int(handle.base_version))
    if entry is None or entry.commit_info is None:
        return None
    return _result(entry.version, int(handle.base_version), entry.commit_info)


def _result(version: int, base_version: int, info: CommitInfo) -> CommitResult:
    return CommitResult(
        version=version, timestamp=info.timestamp, read_version=base_version, already_committed=True, commit_info=info
    )


def _base(log: TableLog, staged: StagedCommit) -> Snapshot | None:
    if staged.base_version < 0:
        return None
    try:
        base = log.snapshot(staged.base_version)
    except VersionNotFoundError as error:
        raise _expired(log, staged, f"the log has lost version {staged.base_version}, behind which it was staged") from error
    if base.metadata.id != staged.table_id:
        detail = "the table was replaced by another one"
        raise StagedCommitOutdatedError(table=log.table_uri, id=staged.id, detail=detail)
    return base


def _rebase(log: TableLog, staged: StagedCommit, base: Snapshot | None, origin: Origin) -> Rebased:
    """What is staged as an attempt to commit, behind the newest version.

    Raises:
        StagedCommitOutdatedError: A commit forbids it.
        StagedCommitDamagedError: What it says it read does not fit the table.
    """
    table = log.table_uri
    try:
        attempt = _attempt(table, staged, base, log.clock(), origin)
        rebased = rebase(replace(attempt, deletion_vectors=StoredDeletionVectors(log.store)), log.store)
    except (CommitConflictError, TableExistsError) as error:
        raise _outdated(table, staged.id, error) from error
    except (ValueError, TypeError, LookupError, pa.ArrowException) as error:
        detail = f"{type(error).__name__}: {str(error)[:200]!r}"
        raise StagedCommitDamagedError(table=table, file=staged_path(staged.id), detail=detail) from error
    return rebased


def _attempt(table: str, staged: StagedCommit, base: Snapshot | None, now: int, origin: Origin) -> CommitAttempt:
    """The attempt with the time, and the run, of its publication."""
    actions = staged.actions
    if base is not None:
        protocol, metadata, schema = base.protocol, base.metadata, base.schema
    elif actions.protocol is not None and actions.metadata is not None:
        protocol, metadata = actions.protocol, actions.metadata
        schema = columns_of(metadata, protocol)
    else:
        raise ValueError("it creates a table without metadata and protocol")
    info = actions.commit_info or CommitInfo(timestamp=now, operation="UNKNOWN")
    record = {**info.origin.record, PUBLISHED_BY_KEY: dict(origin.record)} if origin.record else info.origin.record
    published_by = replace(info.origin, token=staged.id, record=record)
    info = replace(info, timestamp=now, in_commit_timestamp=None, txn_id=str(uuid.uuid4()), origin=published_by)
    after = base.timestamp if base is not None and are_enabled((actions.metadata or metadata).configuration) else -1
    actions = replace(actions, commit_info=info, removes=_removed_at(actions.removes, now))
    actions = with_time(actions, metadata, version=staged.base_version + 1, after=after)
    return replace(staged.attempt(table, protocol, metadata, schema), actions=actions)


def _removed_at(removes: pa.Table, now: int) -> pa.Table:
    """The removed files, from now on: so long as the table keeps them for readers, counted from the commit."""
    place = removes.schema.get_field_index("deletion_timestamp")
    return removes.set_column(place, removes.field(place), pa.repeat(pa.scalar(now, pa.int64()), len(removes)))


def _outdated(table: str, id: str, error: DeltaError) -> StagedCommitOutdatedError:  # noqa: A002
    return StagedCommitOutdatedError(table=table, id=id, detail=error.claim(), rule=error.code)


def _expired(log: TableLog, staged: StagedCommit, detail: str) -> StagedCommitExpiredError:
    return StagedCommitExpiredError(table=log.table_uri, id=staged.id, detail=detail)


# -- discarding


def discard(log: TableLog, handle: StagedHandle, origin: Origin) -> int:
    """Drop what is staged: it can no longer be published. How many of its files were there to be deleted.

    Files that cannot be deleted are left to a vacuum, as are those of an expired handle whose publication had begun. A
    second call, and one for what has gone long ago, does no harm.

    Raises:
        StagedCommitPublishedError: It has been published.
        StagedCommitPendingError: Another task has begun to publish it, and may go on.
        StagedCommitDamagedError: The document, or the decision, cannot be read.
    """
    if handle.id is None:
        return 0
    table, store = log.table_uri, log.store
    with suppress(TokenHistoryLostError):  # the decision says it as well, if it is still there
        if (done := _published(log, handle)) is not None:
            raise StagedCommitPublishedError(table=table, id=handle.id, version=done.version)
    try:
        staged, _ = load(store, handle)
    except StagedCommitNotFoundError:
        return 0
    if decide(store, staged.id, "discard", origin) == "publish":
        try:
            done = plan_publication(log, handle, origin).done
        except StagedCommitOutdatedError:  # whoever began to publish it meets the same commit: it never will be
            return _delete_files(log, staged)
        except (StagedCommitExpiredError, TokenHistoryLostError):  # a publication that had begun may still run; no other begins
            return 0
        if done is None:
            raise StagedCommitPendingError(table=table, id=staged.id)
        raise StagedCommitPublishedError(table=table, id=staged.id, version=done.version)
    return _delete_files(log, staged)


def _delete_files(log: TableLog, staged: StagedCommit) -> int:
    """Delete the files in directories of its own that no version names, whatever its document says."""
    paths = staged_files(staged, log.table_uri)
    paths = paths.filter(pc.match_substring_regex(paths, AREA))
    if log.exists():
        snapshot = log.refresh()
        known = [files.select(["path", "deletion_vector"]) for files in (snapshot.files(), snapshot.tombstones())]
        paths = paths.filter(pc.invert(pc.is_in(paths, named_paths(known, table=log.table_uri).combine_chunks())))
    failed = delete_in_bulk(log.store, paths.combine_chunks())
    for failure in failed:
        _logger.warning("%s: %d discarded files are left to a vacuum: %s", log.table_uri, failure.number, failure.detail)
    return len(paths) - sum(failure.number for failure in failed)
