"""Has this task committed? The log is asked, because every other witness can be lost."""

from __future__ import annotations

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.history import HistoryEntry
from airflow_delta.core.statements import OperationResult


def committed_result(log: DeltaLog, token: str, start_version: int | None) -> OperationResult | None:
    """The result of the commit that carries the token, or None when there is none.

    Args:
        log: The table's log; there may be no table.
        token: The task's token.
        start_version: Only later commits are searched; None searches all that the log still has.

    Raises:
        TokenHistoryLostError: Commits after ``start_version`` were cleaned up, so nobody can tell.
    """
    if not log.exists():
        return None
    if start_version is None:
        entry = next((each for each in log.history() if each.commit_info.origin.token == token), None)
    else:
        entry = log.find_commit(token, after=start_version)
    return None if entry is None else _result(log.table_uri, entry)


def _result(table: str, entry: HistoryEntry) -> OperationResult:
    info = entry.commit_info
    return OperationResult(
        table=table,
        version=entry.version,
        read_version=entry.version - 1 if info.read_version is None else info.read_version,
        operation=info.operation,
        committed=True,
        already_committed=True,
        metrics={name: int(text) if text.lstrip("-").isdecimal() else text for name, text in info.operation_metrics.items()},
    )
