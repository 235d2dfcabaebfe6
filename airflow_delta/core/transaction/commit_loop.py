"""Optimistic concurrency: try to write the next version; if it is taken, check the winners for conflicts and rebase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from airflow_delta.core.actions import CommitActions, CommitInfo, Metadata
from airflow_delta.core.backoff import Backoff
from airflow_delta.core.errors import CommitAttemptsExhaustedError, CommitStateUnknownError, TableExistsError
from airflow_delta.core.log.commit_writer import commit_json
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.commit_result import resolved_conflict
from airflow_delta.core.transaction.conflict_checker import check_conflicts
from airflow_delta.core.transaction.in_commit_timestamps import are_enabled_after
from airflow_delta.core.transaction.retrying_log_writer import RetryingLogWriter
from airflow_delta.core.transaction.winning_commit import WinningCommit

COMMIT_BACKOFF = Backoff(tries=4, first=0.02, most=1.0)
"""The pauses between requests that got no answer, and between attempts that lost to concurrent commits.

``tries`` bounds the requests only; attempts are bounded by ``max_attempts``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """The outcome of a commit attempt: a commit, or nothing left to commit.

    Attributes:
        version: The committed version; if nothing was left to commit, the last version read.
        info: The ``commitInfo`` of the commit, which may be that of a duplicate attempt of the same task.
        actions: The actions as written.
        metadata: The table's metadata after the commit.
        attempts: The number of versions tried.
        conflicts: The concurrent commits that the attempt was rebased over.
        by_duplicate_attempt: Whether another attempt of the same task made the commit.
        lost_bins: Indexes of the bins that were left out.
        committed: Whether there is a commit.
    """

    version: int
    info: CommitInfo
    actions: CommitActions
    metadata: Metadata
    attempts: int
    conflicts: tuple[dict[str, Any], ...] = ()
    by_duplicate_attempt: bool = False
    lost_bins: tuple[int, ...] = ()
    committed: bool = True


def commit(attempt: CommitAttempt, store: LogStore, *, max_attempts: int, backoff: Backoff = COMMIT_BACKOFF) -> CommitOutcome:
    """Write ``attempt`` as the first free version after the one it read.

    Each winner is first searched for the attempt's ``txn_id`` (then it is our own commit, whose answer was lost) and for its
    token (then it is a duplicate attempt of the same task, which may still run although the task was considered dead). Either
    way the work is done.

    Raises:
        CommitConflictError: A winner forbids the attempt. Nothing was written.
        TableExistsError: The table to be created is there. Nothing was written.
        CommitAttemptsExhaustedError: Other commits took ``max_attempts`` versions first. Nothing was written.
        CommitStateUnknownError: The storage neither answered nor showed afterwards whether the write succeeded.
        StorageAccessError: The storage denies access, or is full. Nothing was written.
        UnfinishedCommitError: Another writer has left the next version incomplete. Nothing was written.
    """
    log = RetryingLogWriter(store=store, backoff=backoff)
    info = attempt.actions.commit_info or CommitInfo(timestamp=0, operation="UNKNOWN")
    version = attempt.read_version + 1
    conflicts: list[dict[str, Any]] = []

    content = commit_json(attempt.actions)

    def outcome(actions: CommitActions, own: CommitInfo, **attributes: Any) -> CommitOutcome:
        return CommitOutcome(
            info=own,
            actions=actions,
            metadata=actions.metadata or attempt.metadata,
            conflicts=tuple(conflicts),
            lost_bins=attempt.bins.lost if attempt.bins else (),
            **attributes,
        )

    for attempts in range(1, max_attempts + 1):
        try:
            written = log.write(version, content)
            with_time = are_enabled_after(attempt.metadata, attempt.actions)
            winners = [] if written else log.winners(version, attempts=attempts, with_time=with_time)
        except OSError as error:
            raise _unknown(attempt, version, info, repr(error)) from error
        if written:
            return outcome(attempt.actions, attempt.actions.commit_info or info, version=version, attempts=attempts)
        for winner in winners:
            if own := _own_commit(winner, info):
                is_duplicate = own.txn_id != info.txn_id
                return outcome(
                    winner.actions, own, version=winner.version, attempts=attempts, by_duplicate_attempt=is_duplicate
                )
        if attempt.read_version < 0 and winners:
            raise TableExistsError(table=attempt.table, version=winners[-1].version)
        before = attempt.actions
        for winner in winners:
            attempt = check_conflicts(attempt, winner)
            conflicts.append(resolved_conflict(winner))
            if attempt.bins and attempt.bins.is_empty:
                return outcome(attempt.actions, info, version=winner.version, attempts=attempts, committed=False)
        content = content if attempt.actions is before else commit_json(attempt.actions)
        version += len(winners)
    raise CommitAttemptsExhaustedError(table=attempt.table, read_version=attempt.read_version, attempts=max_attempts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rebased:
    """An attempt rebased over the newest version; nothing is written.

    Attributes:
        attempt: The rebased attempt; its ``read_version`` is the newest version.
        conflicts: The concurrent commits that it was rebased over.
        own: The winner that carries the attempt's token: the attempt has been committed before; else None.
    """

    attempt: CommitAttempt
    conflicts: tuple[dict[str, Any], ...] = ()
    own: WinningCommit | None = None


def rebase(attempt: CommitAttempt, store: LogStore, *, backoff: Backoff = COMMIT_BACKOFF) -> Rebased:
    """Check ``attempt`` against all commits after the version it read, as ``commit`` would, but write nothing.

    Raises:
        CommitConflictError: One of them forbids the attempt.
        TableExistsError: The table to be created is there.
        OSError: The storage does not answer.
    """
    with_time = are_enabled_after(attempt.metadata, attempt.actions)
    winners = RetryingLogWriter(store=store, backoff=backoff).winners(attempt.read_version + 1, attempts=1, with_time=with_time)
    info = attempt.actions.commit_info or CommitInfo(timestamp=0, operation="UNKNOWN")
    own = next((winner for winner in winners if _own_commit(winner, info)), None)
    if own is not None:
        return Rebased(attempt=attempt, own=own)
    if attempt.read_version < 0 and winners:
        raise TableExistsError(table=attempt.table, version=winners[-1].version)
    for winner in winners:
        attempt = check_conflicts(attempt, winner)
    read_version = attempt.read_version + len(winners)
    return Rebased(attempt=replace(attempt, read_version=read_version), conflicts=tuple(map(resolved_conflict, winners)))


def _own_commit(winner: WinningCommit, info: CommitInfo) -> CommitInfo | None:
    """The winner's commit info when the winner is this attempt, or a duplicate attempt of its task."""
    theirs = winner.actions.commit_info
    if theirs is None:
        return None
    same_task = theirs.origin.token is not None and theirs.origin.token == info.origin.token
    same_attempt = theirs.txn_id is not None and theirs.txn_id == info.txn_id
    return theirs if same_task or same_attempt else None


def _unknown(attempt: CommitAttempt, version: int, info: CommitInfo, detail: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(table=attempt.table, version=version, txn_id=info.txn_id or "", detail=detail)
