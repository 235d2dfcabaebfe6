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
        version: The committed version; ``read_version`` when there was nothing to commit.
        timestamp: Time in the commit info, milliseconds since the epoch.
        read_version: Version the transaction was computed from; -1 for a new table.
        attempts: The number of versions tried.
        conflicts: Every winner met, as JSON objects: ``version``, ``operation``, ``rule`` (the error's code, not the name of a
            conflict rule; None for a winner that did not conflict), ``job`` and ``run`` (of the task run, if it was one of this
            package's: dag_id, run_id, ...).
        committed: Whether there is a commit.
        already_committed: Whether another try of the same task (same token) made the commit, not this one.
        commit_info: The ``commitInfo`` of the commit, or of the staged commit; None when there is neither.
        lost_bins: Of ``commit_rewrites``: indexes of the bins left out because a winner had removed one of their inputs.
        after_commit: What post-commit hooks report of their work, by name; JSON values.
        hook_failures: Failures of post-commit hooks; the commit stands.
        staged: The handle of the commit that was staged instead of made, as ``operations.staged_folder.handle_of`` describes
            it; ``already_committed`` then means that another try had already staged it.
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
