"""The optimistic protocol: write the next version if nobody has; else see who has, and whether that matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from airflow_delta.core.actions import CommitActions, CommitInfo, Metadata
from airflow_delta.core.errors import CommitAttemptsExhaustedError, CommitStateUnknownError, LogGapError, TableExistsError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.commit_writer import commit_json
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.transaction.commit_attempt import CommitAttempt
from airflow_delta.core.transaction.commit_checks import is_empty
from airflow_delta.core.transaction.commit_result import passed
from airflow_delta.core.transaction.conflict_checker import check_conflicts
from airflow_delta.core.transaction.in_commit_timestamps import get_enabled
from airflow_delta.core.transaction.winning_commit import WinningCommit

_TRIES = 3  # of a request that the storage does not answer

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """How it ended: a commit that stands, or nothing left to commit.

    Attributes:
        version: Of the commit; where nothing was left, the last version looked at.
        info: Its commit info: ours, or that of another try of the same task.
        actions: What it says, as written.
        metadata: The table's metadata with it.
        attempts: How often a version was tried.
        conflicts: The winners that were passed on the way.
        by_twin: Whether another try of the same task made it.
        lost_bins: Ordinals of the bins that were left out.
        committed: Whether there is a commit.
    """

    version: int
    info: CommitInfo
    actions: CommitActions
    metadata: Metadata
    attempts: int
    conflicts: tuple[dict[str, Any], ...] = ()
    by_twin: bool = False
    lost_bins: tuple[int, ...] = ()
    committed: bool = True


def commit(attempt: CommitAttempt, store: LogStore, *, max_attempts: int) -> Landed:
    """Write ``attempt`` as the first free version after what it read.

    Every winner is first searched for the attempt's ``txn_id`` (our own commit, whose answer was lost) and for its token
    (another try of the same task, which may go on although its task is believed dead): either way the work is done.

    Raises:
        CommitConflictError: A winner forbids the attempt. Nothing was written.
        TableExistsError: The table to be created is there. Nothing was written.
        CommitAttemptsExhaustedError: Others were faster ``max_attempts`` times. Nothing was written.
        CommitStateUnknownError: The storage did not answer, nor tell afterwards what had happened.
    """
    info = attempt.actions.commit_info or CommitInfo(timestamp=0, operation="UNKNOWN")
    version = attempt.read_version + 1
    conflicts: list[dict[str, Any]] = []

    content = commit_json(attempt.actions)

    def landed(actions: CommitActions, own: CommitInfo, **attributes: Any) -> Landed:
        return Landed(
            info=own,
            actions=actions,
            metadata=actions.metadata or attempt.metadata,
            conflicts=tuple(conflicts),
            lost_bins=attempt.bins.lost if attempt.bins else (),
            **attributes,
        )

    for attempts in range(1, max_attempts + 1):
        try:
            written = _written(store, version, content)
            winners = [] if written else _winners(store, version, with_time=get_enabled(attempt.metadata, attempt.actions))
        except OSError as error:
            raise _unknown(attempt, version, info, repr(error)) from error
        if written:
            return landed(attempt.actions, attempt.actions.commit_info or info, version=version, attempts=attempts)
        for winner in winners:
            if own := _own_commit(winner, info):
                by_twin = own.txn_id != info.txn_id
                return landed(winner.actions, own, version=winner.version, attempts=attempts, by_twin=by_twin)
        if attempt.read_version < 0 and winners:
            raise TableExistsError(table=attempt.table, version=winners[-1].version)
        before = attempt.actions
        for winner in winners:
            attempt = check_conflicts(attempt, winner)
            conflicts.append(passed(winner))
            if attempt.bins and attempt.bins.is_empty:
                return landed(attempt.actions, info, version=winner.version, attempts=attempts, committed=False)
        content = content if attempt.actions is before else commit_json(attempt.actions)
        version += len(winners)
    raise CommitAttemptsExhaustedError(table=attempt.table, read_version=attempt.read_version, attempts=max_attempts)


def _written(store: LogStore, version: int, content: bytes) -> bool:
    """Whether the version is ours; False when it is taken, perhaps by this very content.

    Raises:
        OSError: No answer, and the version is still free as far as the storage tells.
    """
    try:
        _patiently(partial(store.write_if_absent, commit_path(version), content))
    except FileExistsError:
        return False
    except OSError:
        if _patiently(partial(store.exists, commit_path(version))):
            return False
        raise
    return True


def _patiently(request: Callable[[], Answer]) -> Answer:
    """The answer to a request that is sent again while there is none.

    To create a file may be sent again: should the first request have arrived, the next finds the file, and whose it is can be
    read in it.
    """
    for _ in range(_TRIES - 1):
        try:
            return request()
        except FileExistsError:
            raise
        except OSError:
            continue
    return request()


def _winners(store: LogStore, version: int, *, with_time: bool) -> list[WinningCommit]:
    """All commits from ``version`` on, and when their files were written where that matters."""
    winners = _patiently(lambda: list(_commits_from(store, version)))
    if not with_time:
        return winners
    commits = _patiently(lambda: list_log(store, version)).commits
    return [
        replace(each, file_time=found.modification_time if (found := commits.get(each.version)) else None) for each in winners
    ]


def _commits_from(store: LogStore, version: int) -> Iterator[WinningCommit]:
    while True:
        try:
            actions = read_commit(store, version)
        except LogGapError:  # the end of the log
            return
        if actions.commit_info is None and is_empty(actions):
            # Where a filesystem has no hard links, a file is there before its content: no winner to build upon.
            raise OSError(f"{commit_path(version)} says nothing yet")
        yield WinningCommit(version=version, actions=actions)
        version += 1


def _own_commit(winner: WinningCommit, info: CommitInfo) -> CommitInfo | None:
    """The winner's commit info when the winner is this attempt, or another try of its task."""
    theirs = winner.actions.commit_info
    if theirs is None:
        return None
    same_task = theirs.origin.token is not None and theirs.origin.token == info.origin.token
    return theirs if same_task or theirs.txn_id == info.txn_id else None


def _unknown(attempt: CommitAttempt, version: int, info: CommitInfo, detail: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(table=attempt.table, version=version, txn_id=info.txn_id or "", detail=detail)
