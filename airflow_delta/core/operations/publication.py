"""Publishing a staged commit: it is checked against every commit since its base version, and committed.

The id of the staged commit is the token, so that it is committed only once, however often it is published. If the process died
after deciding to publish (see ``staged_folder``) and before committing, the next call makes the commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from airflow_delta.core.actions import CommitInfo, Origin
from airflow_delta.core.actions.commit_info import PUBLISHED_BY_KEY
from airflow_delta.core.errors import (
    CommitConflictError,
    DeltaError,
    LogGapError,
    StagedCommitDamagedError,
    StagedCommitDiscardedError,
    StagedCommitExpiredError,
    StagedCommitNotFoundError,
    StagedCommitOutdatedError,
    TableExistsError,
    VersionNotFoundError,
)
from airflow_delta.core.log.history import find_commit
from airflow_delta.core.operations.staged_folder import (
    decide,
    decision_of,
    load,
    missing_files,
    staged_files,
    staged_path,
)
from airflow_delta.core.operations.table_log import TableLog
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
from airflow_delta.core.transaction.winning_commit import WinningCommit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Publication:
    """A staged commit that can be published, as far as the log shows; nothing is written yet.

    Attributes:
        log: The log of the table.
        handle: The handle of the staged commit.
        done: The commit that has published it before; else None.
        base: The version that it was staged on; None for a table to be created.
        attempt: The staged commit as an attempt, rebased over the newest version.
        conflicts: The commits that it was rebased over.
        origin: The task run that publishes it.
    """

    log: TableLog
    handle: StagedHandle
    origin: Origin
    done: CommitResult | None = None
    base: Snapshot | None = None
    attempt: CommitAttempt | None = None
    conflicts: tuple[dict[str, Any], ...] = ()

    def commit(self) -> CommitResult:
        """Make the commit, or return the one made before.

        Raises:
            StagedCommitDiscardedError: It was discarded meanwhile.
            StagedCommitOutdatedError: A commit made meanwhile conflicts with it.
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
    """Check that a staged commit can be published now.

    Args:
        log: The log of the table; the table need not exist.
        handle: The handle of the staged commit.
        origin: The task run that publishes it; it is recorded in the commit under ``published_by``.

    Raises:
        StagedCommitNotFoundError: Neither its document nor a commit of it exists.
        StagedCommitDamagedError: The document cannot be read, or does not match the handle.
        StagedCommitDiscardedError: It was discarded.
        StagedCommitExpiredError: It has expired, or its files are gone.
        StagedCommitOutdatedError: A commit since its base version conflicts with it.
        TokenHistoryLostError: It is unknown whether it was published before, as commits were cleaned up.
    """
    publication = Publication(log=log, handle=handle, origin=origin)
    if handle.id is None:
        return publication
    try:
        staged, _ = load(log.store, handle)
    except StagedCommitNotFoundError:
        done = published(log, handle)
        if done is None:
            raise
        return replace(publication, done=done)
    found = published(log, replace(handle, base_version=staged.base_version))
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
    """Return if staged commits on the same table can be published one after the other.

    Raises:
        StagedCommitOutdatedError: One of them conflicts with a later one.
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


def published(log: TableLog, handle: StagedHandle) -> CommitResult | None:
    """The commit that has published it; None if it has not been published."""
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
    except (VersionNotFoundError, LogGapError) as error:
        raise _expired(log, staged, f"the log has lost version {staged.base_version}, behind which it was staged") from error
    if base.metadata.id != staged.table_id:
        detail = "the table was replaced by another one"
        raise StagedCommitOutdatedError(table=log.table_uri, id=staged.id, detail=detail)
    return base


def _rebase(log: TableLog, staged: StagedCommit, base: Snapshot | None, origin: Origin) -> Rebased:
    """The staged commit as a commit attempt, rebased over the newest version.

    Raises:
        StagedCommitOutdatedError: A commit conflicts with it.
        StagedCommitDamagedError: What it claims to have read does not fit the table.
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
    """The attempt, with the time of its publication and the task run that publishes it."""
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
    after = base.history_timestamp if base is not None and are_enabled((actions.metadata or metadata).configuration) else -1
    actions = replace(actions, commit_info=info, removes=_removed_at(actions.removes, now))
    actions = with_time(actions, metadata, version=staged.base_version + 1, after=after)
    return replace(staged.attempt(table, protocol, metadata, schema), actions=actions)


def _removed_at(removes: pa.Table, now: int) -> pa.Table:
    """The removed files with the time of publication: their retention counts from the commit."""
    place = removes.schema.get_field_index("deletion_timestamp")
    return removes.set_column(place, removes.field(place), pa.repeat(pa.scalar(now, pa.int64()), len(removes)))


def _outdated(table: str, id: str, error: DeltaError) -> StagedCommitOutdatedError:  # noqa: A002
    return StagedCommitOutdatedError(table=table, id=id, detail=error.claim(), rule=error.code)


def _expired(log: TableLog, staged: StagedCommit, detail: str) -> StagedCommitExpiredError:
    return StagedCommitExpiredError(table=log.table_uri, id=staged.id, detail=detail)
