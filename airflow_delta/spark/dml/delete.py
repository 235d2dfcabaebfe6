"""DELETE: files that lose all rows are only removed from the log; the remaining rows of other files are kept."""

from __future__ import annotations

import time
from functools import partial

from pyspark.sql import SparkSession

from airflow_delta.core.actions import ADD_FILE, Origin, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.record_counts import live_rows
from airflow_delta.core.predicate import is_exact
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import DeleteStatement, OperationResult
from airflow_delta.spark.dml.deletion import count_rows, delete_rows
from airflow_delta.spark.dml.history import NO_FILE_WRITTEN, operation_of, removal_metrics, time_metrics, written_metrics
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.statement.conflict_retry import Conflicts, Steps, retry_on_conflict
from airflow_delta.spark.statement.outcome import result_of, uncommitted
from airflow_delta.spark.supported_features import ENFORCED

_NAME, _COUNTER = "DELETE", "numDeletedRows"


def delete(
    spark: SparkSession,
    log: DeltaLog,
    statement: DeleteStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Delete the rows and commit, or raise and leave the table unchanged.

    Args:
        spark: The session.
        log: The table's log.
        statement: The statement.
        origin: The task run that executes the statement; a commit with its token counts as this statement's.
        start_version: As of ``retry_on_conflict``.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: The condition does not fit the table.
        AppendOnlyTableError: The table is append-only.
        CommitConflictError: Every attempt conflicted, or a concurrent commit changed the metadata or protocol.
    """
    origin = origin or Origin()
    steps = Steps(
        name=_NAME,
        read=log.refresh,
        prepare=partial(Selection.for_change, spark, statement.where),
        attempt=partial(_attempt, spark=spark, log=log, statement=statement, origin=origin),
        after_conflict=Selection.after_conflict,
    )
    return retry_on_conflict(log, steps, origin=origin, start_version=start_version)


def _attempt(
    snapshot: Snapshot,
    selection: Selection,
    conflicts: Conflicts,
    *,
    spark: SparkSession,
    log: DeltaLog,
    statement: DeleteStatement,
    origin: Origin,
) -> OperationResult:
    if selection.is_of_whole_files:
        return _delete_files(log, statement, origin, selection, conflicts)
    started = time.monotonic()
    transaction = log.start_transaction(snapshot, enforces=ENFORCED)
    transaction.record_read(selection.predicate)
    candidates = selection.candidates()
    if statement.dry_run:
        found = count_rows(spark, selection, candidates)
        metrics = {**NO_FILE_WRITTEN, **removal_metrics(found.files), _COUNTER: found.rows}
        return uncommitted(snapshot, _NAME, metrics, conflicts)
    with StagingArea(snapshot.store) as staging:
        deleted = delete_rows(spark, selection, candidates, staging, log.clock)
        metrics = {**NO_FILE_WRITTEN, **removal_metrics(deleted.files), _COUNTER: deleted.rows}
        if deleted.applied is None:
            return uncommitted(snapshot, _NAME, metrics, conflicts)
        metrics |= written_metrics(deleted.applied) | time_metrics(started, deleted.scanned)
        transaction.record_read_files(deleted.files["path"])
        staging.keep()
        commit = transaction.commit(
            adds=deleted.applied.adds,
            removes=deleted.applied.removes,
            changes=deleted.applied.changes,
            operation=operation_of(_NAME, statement.where),
            metrics=metrics,
            origin=origin,
            row_wise=is_exact(selection.predicate),
        )
        staging.settle(unused=commit.already_committed)
    return result_of(log.table_uri, commit, metrics, conflicts)


def _delete_files(
    log: DeltaLog, statement: DeleteStatement, origin: Origin, selection: Selection, conflicts: Conflicts
) -> OperationResult:
    """Delete whole files, without opening any."""
    started, files = time.monotonic(), selection.candidates(ADD_FILE.names)
    transaction = log.start_transaction(selection.snapshot, enforces=ENFORCED)
    transaction.record_read(selection.predicate)
    metrics = {**NO_FILE_WRITTEN, **removal_metrics(files), _COUNTER: live_rows(files)}
    if statement.dry_run or not len(files):
        return uncommitted(selection.snapshot, _NAME, metrics, conflicts)
    metrics["executionTimeMs"] = round((time.monotonic() - started) * 1000)
    removes = removes_of(files, deletion_timestamp=log.clock(), data_change=True)
    commit = transaction.commit(removes=removes, operation=operation_of(_NAME, statement.where), metrics=metrics, origin=origin)
    return result_of(log.table_uri, commit, metrics, conflicts)
