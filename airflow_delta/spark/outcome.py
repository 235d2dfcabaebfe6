"""From the log to the result of a statement, and from a statement's sources into the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from airflow_delta.core.actions import CommitInfo, Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.transaction.commit_result import CommitResult
from airflow_delta.spark.sources import Pin

_SOURCES = "sources"
"""Key of the versions read, in our record of a commit info."""


def earlier_result(log: DeltaLog, origin: Origin, start_version: int | None) -> OperationResult | None:
    """The result of the commit that carries the origin's token already; None when there is none.

    Args:
        log: The table's log; there may be no table.
        origin: The asking task.
        start_version: The table's version when the token was minted (-1 for no table); None when nobody wrote it down, so that
            only the commit itself looks for a twin, among those that it races with.

    Raises:
        TokenHistoryLostError: Commits after ``start_version`` were cleaned up, so nobody can tell.
    """
    if origin.token is None or start_version is None or not log.exists():
        return None
    found = log.find_commit(origin.token, after=start_version)
    if found is None or found.commit_info is None:
        return None
    return _of_commit(log.table_uri, found.version, found.commit_info, already_committed=True)


def result_of(
    table: str, commit: CommitResult, metrics: Mapping[str, int | str], redone: Iterable[Mapping[str, Any]] = ()
) -> OperationResult:
    """The result of a transaction that this process committed, or found committed by its twin.

    Args:
        table: URI of the table.
        commit: What became of the last attempt.
        metrics: Delta's operation metrics.
        redone: The winners that forced earlier attempts to be redone.
    """
    redone = tuple(redone)
    if commit.commit_info is None:
        raise ValueError("a transaction without a commit has no result here")
    result = _of_commit(table, commit.version, commit.commit_info, already_committed=commit.already_committed)
    return replace(
        result,
        metrics=result.metrics if commit.already_committed else dict(metrics),
        conflicts=(*redone, *commit.conflicts),
        attempts=commit.attempts + len(redone),
    )


def with_sources(origin: Origin | None, pins: Iterable[Pin]) -> Origin:
    """The origin with the versions that the statement reads, so that history tells what a commit was computed from."""
    origin = origin or Origin()
    listed = [each.to_json() for each in pins]
    return replace(origin, record={**origin.record, _SOURCES: listed}) if listed else origin


def _of_commit(table: str, version: int, info: CommitInfo, *, already_committed: bool) -> OperationResult:
    return OperationResult(
        table=table,
        version=version,
        read_version=version - 1 if info.read_version is None else info.read_version,
        operation=info.operation,
        committed=True,
        already_committed=already_committed,
        metrics={name: int(text) if text.lstrip("-").isdecimal() else text for name, text in info.operation_metrics.items()},
        sources=tuple(info.origin.record.get(_SOURCES, ())),
    )
