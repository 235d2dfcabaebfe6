"""The result of a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_delta.core.actions import CommitInfo
from airflow_delta.core.errors import CommitConflictError
from airflow_delta.core.errors.conflict import run_of
from airflow_delta.core.transaction.winning_commit import WinningCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The outcome of one transaction.

    Attributes:
        version: Version of the commit; ``read_version`` when there was nothing to commit.
        timestamp: Time in the commit info, milliseconds since the epoch.
        read_version: Version the transaction was computed from; -1 for a new table.
        attempts: How often a version was tried.
        conflicts: Every winner met on the way, as JSON objects: ``version``, ``operation``, ``rule`` (the error's code, not
            the name of a rule; None for a winner that did no harm), ``job`` and ``run`` (the task run, when it was one of ours:
            dag_id, run_id, ...).
        committed: Whether there is a commit.
        already_committed: Whether that commit was made by another try of the same task (same token), not by this one.
        commit_info: The commit's provenance, or what will be that of a staged one; None when there is neither.
        lost_bins: Of ``commit_rewrites``: which bins were left out, because a winner had removed one of their inputs.
        after_commit: What was done after the commit that is worth telling, by name; JSON values.
        hook_failures: What went wrong after the commit; the commit stands.
        staged: The handle of the commit that was staged instead of made, as ``operations.staged_folder.handle_of``
            describes it; ``already_committed`` then says that another try had staged it.
    """

    version: int
    timestamp: int
    read_version: int
    attempts: int = 0
    conflicts: tuple[dict[str, Any], ...] = ()
    committed: bool = True
    already_committed: bool = False
    commit_info: CommitInfo | None = None
    lost_bins: tuple[int, ...] = ()
    after_commit: Mapping[str, Any] = field(default_factory=dict)
    hook_failures: tuple[str, ...] = ()
    staged: Mapping[str, Any] | None = None


def resolved_conflict(winner: WinningCommit) -> dict[str, Any]:
    """A winner that did not conflict, as ``CommitResult.conflicts`` lists it."""
    return _entry(winner.version, winner.info, None)


def retried_conflict(error: CommitConflictError) -> dict[str, Any]:
    """A winner that forced the statement to run again, as ``CommitResult.conflicts`` lists it."""
    return _entry(error.winning_version, error.winner, error.code)


def _entry(version: int, info: dict[str, Any], rule: str | None) -> dict[str, Any]:
    return {
        "version": version,
        "operation": info.get("operation"),
        "rule": rule,
        "job": info.get("job"),
        "run": run_of(info) or None,
    }
