"""Whether a task has already committed, and with what result, read from the log: every other record can be lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_delta.core.actions import CommitInfo
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import StagedCommitNotFoundError, TimestampOutOfRangeError, VersionNotFoundError
from airflow_delta.core.foreign_values import json_value, natural_number, printable
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.operations.staged_folder import described, load, staged_id
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.statements.publish import STAGED_KEY, StagedHandle
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.transaction.commit_result import CommitResult

_DAY = 24 * 3_600_000

SOURCES_KEY = "sources"
"""Key of our record in ``commitInfo`` that lists the table versions read."""


def committed_result(log: DeltaLog, token: str, start_version: int | None) -> OperationResult | None:
    """The result of the commit that carries the token; None when the log holds no such commit.

    Args:
        log: The table's log; the table need not exist.
        token: The task's token.
        start_version: Only later commits are searched; None searches every commit that the log still holds.

    Raises:
        TokenHistoryLostError: Commits after ``start_version`` were cleaned up, so it is unknown whether one carried the token.
    """
    if not log.exists():
        return None
    if start_version is None:
        entry = next(
            (commit for commit in log.history() if commit.commit_info and commit.commit_info.origin.token == token), None
        )
    else:
        entry = log.find_commit(token, after=start_version)
    if entry is None or entry.commit_info is None:
        return None
    return result_of_commit(log.table_uri, entry.version, entry.commit_info, already_committed=True)


def staged_result(log: DeltaLog, token: str) -> OperationResult | None:
    """The result of the commit that the task with this token has staged; None if it has staged nothing.

    Raises:
        StagedCommitDamagedError: The document of the staged commit cannot be read.
    """
    try:
        staged, content = load(log.store, StagedHandle(table=log.table_uri, id=staged_id(token)))
    except StagedCommitNotFoundError:
        return None
    info = staged.actions.commit_info or CommitInfo(timestamp=staged.created, operation="UNKNOWN")
    read_version = NO_TABLE if info.read_version is None else info.read_version
    result = result_of_commit(log.table_uri, read_version, info, already_committed=False)
    return replace(result, committed=False, details={STAGED_KEY: described(log.table_uri, staged, content)})


def version_before(log: DeltaLog, time: int) -> int | None:
    """The table's version one day before ``time``, after which to search for a commit; None if the log no longer shows it.

    -1 if there is no table, or if the table is younger than that and the log still holds version 0.

    The day allows for a difference between the clocks of the storage and of the caller.

    Args:
        log: The table's log; the table need not exist.
        time: Milliseconds since the epoch.
    """
    if not log.exists():
        return NO_TABLE
    limit, latest = time - _DAY, log.refresh()
    if latest.timestamp <= limit:
        return latest.version
    try:
        return log.snapshot(timestamp=limit).version
    except (TimestampOutOfRangeError, VersionNotFoundError):
        return NO_TABLE if 0 in list_log(log.store).commits else None


def result_of_commit(table: str, version: int, info: CommitInfo, *, already_committed: bool) -> OperationResult:
    """The result recorded in a commit, or in a commit staged on this version (-1 if there was no table)."""
    return OperationResult(
        table=table,
        version=version,
        read_version=max(version - 1, NO_TABLE) if info.read_version is None else info.read_version,
        operation=info.operation,
        committed=True,
        already_committed=already_committed,
        metrics={name: _metric(value) for name, value in info.operation_metrics.items()},
        sources=_sources(info.origin.record.get(SOURCES_KEY)),
    )


def _metric(value: Any) -> int | str:
    """An operation metric, which another writer may have recorded in any form."""
    number = natural_number(value)
    return str(json_value(value)) if number is None else number


def _sources(listed: Any) -> tuple[Mapping[str, Any], ...]:
    """The versions read, leaving out entries that lack the form ``OperationResult.sources`` has."""
    sources = [source for source in listed if isinstance(source, Mapping)] if isinstance(listed, list) else []
    return tuple(source for source in sources if _is_source(source.get("table"), source.get("version")))


def _is_source(table: Any, version: Any) -> bool:
    return isinstance(table, str) and type(version) is int and natural_number(version) is not None


def after_commit_warnings(commit: CommitResult) -> tuple[str, ...]:
    """Failures of the work that followed the commit (post-commit hooks), as warnings of a result."""
    return tuple(f"work after version {commit.version} failed: {printable(failure)}" for failure in commit.hook_failures)
