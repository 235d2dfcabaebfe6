"""Stages a commit, to be published or discarded later, possibly by another task or process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from airflow_delta.core.actions import CommitInfo
from airflow_delta.core.errors import (
    CommitStateUnknownError,
    DeltaError,
    InvalidCommitError,
    StagedCommitDiscardedError,
    StagedCommitExpiredError,
    StagedCommitNotFoundError,
)
from airflow_delta.core.operations.staged_folder import (
    MOST_BYTES,
    decision_of,
    described,
    handle_of,
    load,
    staged_path,
)
from airflow_delta.core.operations.staged_store import StagedStore
from airflow_delta.core.operations.table_log import TableLog
from airflow_delta.core.statements.publish import StagedHandle
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.staged_commit import StagedCommit
from airflow_delta.core.transaction.table_properties import deleted_file_retention

_HOUR = 3_600_000
_LONGEST = 365 * 24 * _HOUR


def stage(log: TableLog, id: str, attempt: CommitAttempt) -> tuple[dict[str, Any], bool]:  # noqa: A002
    """Store an attempt that is valid on its read version; returns its handle, and whether the id was staged before.

    Raises:
        StagedCommitExpiredError: The table's retention of unreferenced files is too short.
        InvalidCommitError: The attempt has so many files that its document would exceed 1 GiB, or is a rewrite in bins.
        CommitStateUnknownError: The storage does not answer, or denies access after a write that may have succeeded.
        StorageAccessError: The storage denies access. Nothing was written.
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
    except FileExistsError:  # written by another try, or by this one if its answer was lost
        if _document(log, attempt, id) != content:
            return handle_of(log.store, StagedHandle(table=log.table_uri, id=id)), True
    except (OSError, DeltaError) as error:  # whatever the error, an earlier request may have succeeded
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
    """The existing document. Raises ``CommitStateUnknownError`` if it cannot be read, as it may be that of this attempt."""
    try:
        return log.store.read(staged_path(id))
    except (OSError, DeltaError) as error:
        raise _unknown(attempt, id, error) from error


def _unknown(attempt: CommitAttempt, id: str, error: Exception) -> CommitStateUnknownError:  # noqa: A002
    """The error for a document that may exist; if so, it references the attempt's files, which must be kept."""
    info, detail = attempt.actions.commit_info, f"{staged_path(id)}: {error!r}"
    return CommitStateUnknownError(
        table=attempt.table,
        version=attempt.read_version + 1,
        txn_id=(info and info.txn_id) or "",
        detail=detail,
    )


def _expiry(staged: StagedCommit, attempt: CommitAttempt, now: int) -> int:
    """Until when every vacuum keeps its files, minus a margin for publishing and for clocks that differ."""
    retention = min(deleted_file_retention(attempt.metadata_after.configuration), _LONGEST)
    oldest = pc.min(staged.new_adds["modification_time"]).as_py()
    return min(now, now if oldest is None else oldest) + retention - min(_HOUR, retention // 10)


def staged_store(log: TableLog, handle: StagedHandle) -> StagedStore:
    """The store of the table as it will be, based on the base version: commits made since are not included.

    Raises:
        StagedCommitNotFoundError: The document does not exist.
        StagedCommitDamagedError: The document cannot be read.
        StagedCommitDiscardedError: It was discarded; its files are gone.
    """
    staged, content = load(log.store, handle)
    if decision_of(log.store, staged.id) == "discard":
        raise StagedCommitDiscardedError(table=log.table_uri, id=staged.id)
    document = log.store.status(staged_path(staged.id))
    if document is None:
        raise StagedCommitNotFoundError(table=log.table_uri, id=staged.id)
    return StagedStore(log.store, document, content, staged.base_version)
