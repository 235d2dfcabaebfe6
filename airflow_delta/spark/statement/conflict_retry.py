"""Retries a statement on a fresh snapshot after a write conflict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError, MetadataChangedError, ProtocolChangedError
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.transaction.commit_result import retried_conflict
from airflow_delta.spark.constraints.identity import only_numbers_differ
from airflow_delta.spark.statement.outcome import earlier_result
from airflow_delta.spark.statement.target_reads import at_version_read

MAX_ATTEMPTS = 20
"""Attempts before the conflict is raised to the caller."""

_LOST_ROWS = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

Attempt = Callable[[Snapshot, Sequence[Mapping[str, Any]]], OperationResult]
"""Computes the statement on a version and commits it; the second argument are the conflicts that ended earlier attempts."""


def retry_on_conflict(
    log: DeltaLog,
    attempt: Attempt,
    *,
    origin: Origin | None,
    start_version: int | None,
    on_cache_lost: Callable[[], None] = lambda: None,
) -> OperationResult:
    """The result of the first attempt whose commit does not conflict.

    Args:
        log: The table's log.
        attempt: Runs the statement on a snapshot and commits it.
        origin: Who asks; a commit with its token counts as this statement's.
        start_version: Version of the table when the token was minted, for the search for that commit; None is the version that
            the first attempt reads.
        on_cache_lost: Called when rows that executors cached between attempts are lost.

    Raises:
        TableNotFoundError: There is no table.
        CommitConflictError: Every attempt conflicted, or a concurrent commit changed the metadata or protocol.
        DeltaError: As the attempt raises it.
    """
    searched_from = start_version
    conflicts: list[Mapping[str, Any]] = []
    conflict: CommitConflictError | None = None
    for _ in range(MAX_ATTEMPTS):
        snapshot = log.refresh()
        searched_from = snapshot.version if searched_from is None else searched_from
        # The commit that won may be one of a duplicate attempt of this task, or come before one.
        earlier = earlier_result(log, origin or Origin(), searched_from)
        if earlier is not None:
            return replace(earlier, conflicts=tuple(conflicts), attempts=1 + len(conflicts))
        try:
            return at_version_read(log, snapshot, lambda at: attempt(at, conflicts), lost=conflict)
        except CommitConflictError as error:
            if error is conflict:  # rows that were handed over are as old as they were
                raise
            if isinstance(error, MetadataChangedError | ProtocolChangedError) and not only_numbers_differ(
                snapshot.metadata, log.refresh().metadata
            ):
                raise
            lost = conflict = error
            conflicts.append(retried_conflict(error))
        except (PySparkException, Py4JJavaError) as error:
            # An executor was lost with the rows that it cached: the statement starts again.
            if _LOST_ROWS not in str(error):
                raise
            lost = error
            on_cache_lost()
    raise lost
