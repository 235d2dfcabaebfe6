"""Builds the result of a statement from the log, and records a statement's sources in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import SOURCES_KEY, after_commit_warnings, committed_result, result_of_commit
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.statements.publish import STAGED_KEY
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.spark.statement.sources import Pin


def earlier_result(log: DeltaLog, origin: Origin, start_version: int | None) -> OperationResult | None:
    """The result of the commit that already carries the origin's token; None if no commit does.

    Args:
        log: The table's log; the table need not exist.
        origin: The task run that executes the statement.
        start_version: The table's version when the token was generated (-1 for no table); None if not recorded: then only the
            commit itself looks for a duplicate attempt, among the commits that it conflicts with.

    Raises:
        TokenHistoryLostError: Commits after ``start_version`` were cleaned up, so it is unknown whether one carried the token.
    """
    if origin.token is None or start_version is None:
        return None
    return committed_result(log, origin.token, start_version)


def result_of(
    table: str, commit: CommitResult, metrics: Mapping[str, int | str], retried: Iterable[Mapping[str, Any]] = ()
) -> OperationResult:
    """The result of a transaction that this process committed or staged, or found committed by a duplicate attempt.

    Args:
        table: URI of the table.
        commit: The result of the last attempt.
        metrics: Delta's operation metrics.
        retried: The commits that forced earlier attempts to be repeated.
    """
    retried = tuple(retried)
    if commit.commit_info is None:
        raise ValueError("the transaction made no commit; its result is made by `uncommitted`")
    result = result_of_commit(table, commit.version, commit.commit_info, already_committed=commit.already_committed)
    if commit.staged is not None:
        details = {STAGED_KEY: dict(commit.staged)}
        result = replace(result, committed=False, already_committed=False, details=details)
    return replace(
        result,
        metrics=result.metrics if commit.already_committed else dict(metrics),
        conflicts=(*retried, *commit.conflicts),
        attempts=commit.attempts + len(retried),
        details={**commit.after_commit, **result.details},
        warnings=after_commit_warnings(commit),
    )


def uncommitted(
    snapshot: Snapshot, operation: str, metrics: Mapping[str, int | str], retried: Sequence[Mapping[str, Any]] = ()
) -> OperationResult:
    """The result of a statement that changes nothing, or of a dry run."""
    return OperationResult(
        table=snapshot.table_uri,
        version=snapshot.version,
        read_version=snapshot.version,
        operation=operation,
        committed=False,
        metrics=metrics,
        conflicts=tuple(retried),
        attempts=1 + len(retried),
    )


def with_sources(origin: Origin | None, pins: Iterable[Pin]) -> Origin:
    """The origin with the versions that the statement reads, so that the history shows what a commit was computed from."""
    origin = origin or Origin()
    listed = [pin.to_json() for pin in pins]
    return replace(origin, record={**origin.record, SOURCES_KEY: listed}) if listed else origin
