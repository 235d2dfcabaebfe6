"""Makes the result that operators return from the outcome of a statement of the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import after_commit_warnings, result_of_commit
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.commit_reader import read_commit_info
from airflow_delta.core.statements import OperationResult, Statement
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.jobs.best_effort import BestEffort

Details = Mapping[str, Any]


def of_transaction(log: DeltaLog, operation: str, commit: CommitResult, details: Details | None = None) -> OperationResult:
    """The result of a transaction, whether or not there was anything to commit."""
    if commit.commit_info is None:
        return without_commit(log, operation, commit.version, details=details)
    result = result_of_commit(log.table_uri, commit.version, commit.commit_info, already_committed=commit.already_committed)
    return replace(
        result,
        conflicts=commit.conflicts,
        attempts=commit.attempts,
        details={**commit.after_commit, **(details or {})},
        warnings=after_commit_warnings(commit),
    )


def of_version(
    log: DeltaLog, version: int, origin: Origin, details: Details | None = None, *, commit: CommitResult | None = None
) -> OperationResult:
    """The result of a statement whose commit is this version, made by itself or by another attempt of its task.

    Args:
        log: The table's log.
        version: The committed version.
        origin: The origin of this attempt.
        details: Details of the result.
        commit: The statement's own commit, if known: the result then includes what was done after it, and its warnings.
    """
    best_effort, info = BestEffort(), None
    with best_effort.attempt(f"reading version {version} again"):
        info = read_commit_info(log.store, version)
    details = {**(commit.after_commit if commit else {}), **(details or {})}
    warnings = after_commit_warnings(commit) if commit else ()
    if info is None:
        result = without_commit(log, "UNKNOWN", version, details=details)
        return replace(result, committed=bool(best_effort.warnings), warnings=(*warnings, *best_effort.warnings))
    is_ours = info.origin.record == dict(origin.record)
    result = result_of_commit(log.table_uri, version, info, already_committed=not is_ours)
    return replace(result, details=details, warnings=warnings)


def with_dry_run_flag(result: OperationResult, statement: Statement) -> OperationResult:
    """The result, with ``dry_run`` taken from the statement."""
    return replace(result, dry_run=getattr(statement, "dry_run", False))


def without_commit(
    log: DeltaLog,
    operation: str,
    version: int,
    *,
    metrics: Mapping[str, int | str] | None = None,
    details: Details | None = None,
) -> OperationResult:
    """The result of a statement that committed nothing; the version is -1 if there is no table."""
    return OperationResult(
        table=log.table_uri,
        version=version,
        read_version=version,
        operation=operation,
        committed=False,
        metrics=metrics or {},
        details=details or {},
    )
