"""DELETE: rows go; files of which all rows go are only taken from the log."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.record_counts import live_rows
from airflow_delta.core.predicate import is_exact
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import DeleteStatement, MatchedDelete, OperationResult
from airflow_delta.spark.dml.application import hidden_rows
from airflow_delta.spark.dml.clauses import bind_clauses
from airflow_delta.spark.dml.deletion_vectors import marked_files, uses_deletion_vectors, write_deletion_vectors
from airflow_delta.spark.dml.selected_rows import (
    NO_FILE_WRITTEN,
    RowChange,
    change_selected_rows,
    operation_of,
    removal_metrics,
    time_metrics,
    written_metrics,
)
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.statement.conflict_retry import retry_on_conflict
from airflow_delta.spark.statement.outcome import result_of, uncommitted
from airflow_delta.spark.supported_features import ENFORCED, check_rows_writable

_NAME, _COUNTER = "DELETE", "numDeletedRows"


def delete(
    spark: SparkSession,
    log: DeltaLog,
    statement: DeleteStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Delete the rows and commit it, or raise and leave the table as it is.

    Args:
        spark: The session.
        log: The table's log.
        statement: Which rows.
        origin: Who asks; a commit with its token counts as this statement's.
        start_version: As of ``retry_on_conflict``.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: The condition does not fit the table.
        AppendOnlyTableError: The table only takes appends.
        CommitConflictError: Every attempt conflicted, or a concurrent commit changed the metadata or protocol.
    """

    def attempt(snapshot: Snapshot, conflicts: Sequence[Mapping[str, Any]]) -> OperationResult:
        check_rows_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
        selection = Selection.of(spark, snapshot, statement.where)
        if selection.is_of_whole_files:
            return _delete_files(log, statement, selection, origin or Origin(), conflicts)
        if uses_deletion_vectors(snapshot) and not statement.dry_run:
            return _hide_rows(spark, log, statement, selection, origin=origin or Origin(), conflicts=conflicts)
        change = RowChange(
            name=_NAME,
            counter=_COUNTER,
            where=statement.where,
            clauses=bind_clauses(
                [MatchedDelete()], snapshot.schema, snapshot.partition_columns, table=snapshot.table_uri, whole_rows=False
            ),
            dry_run=statement.dry_run,
            origin=origin or Origin(),
        )
        return change_selected_rows(spark, log, selection, change, conflicts)

    return retry_on_conflict(log, attempt, origin=origin, start_version=start_version)


def _delete_files(
    log: DeltaLog,
    statement: DeleteStatement,
    selection: Selection,
    origin: Origin,
    conflicts: Sequence[Mapping[str, Any]],
) -> OperationResult:
    """No file is opened."""
    started, files = time.monotonic(), selection.candidates()
    transaction = log.start_transaction(selection.snapshot, enforces=ENFORCED)
    transaction.record_read(selection.predicate)
    metrics = {**NO_FILE_WRITTEN, **removal_metrics(files), _COUNTER: live_rows(files)}
    if statement.dry_run or not len(files):
        return uncommitted(selection.snapshot, _NAME, metrics, conflicts)
    metrics["executionTimeMs"] = round((time.monotonic() - started) * 1000)
    removes = removes_of(files, deletion_timestamp=log.clock(), data_change=True)
    commit = transaction.commit(removes=removes, operation=operation_of(_NAME, statement.where), metrics=metrics, origin=origin)
    return result_of(log.table_uri, commit, metrics, conflicts)


def _hide_rows(
    spark: SparkSession,
    log: DeltaLog,
    statement: DeleteStatement,
    selection: Selection,
    *,
    origin: Origin,
    conflicts: Sequence[Mapping[str, Any]],
) -> OperationResult:
    """One pass finds the rows and writes what hides them: a task of a scan reads whole files, in order."""
    started, snapshot = time.monotonic(), selection.snapshot
    transaction = log.start_transaction(snapshot, enforces=ENFORCED)
    transaction.record_read(selection.predicate)
    candidates = selection.candidates()
    with StagingArea(snapshot.store) as staging:
        vectors = write_deletion_vectors(snapshot, candidates, selection.positions(spark, candidates), staging)
        touched = candidates.take(vectors["file"])
        transaction.record_read_files(touched["path"])
        applied = hidden_rows(touched, marked_files(candidates, vectors), log.clock)
        hidden_before = pc.sum(pc.struct_field(touched["deletion_vector"], "cardinality")).as_py() or 0
        metrics = {
            **NO_FILE_WRITTEN,
            **removal_metrics(touched),
            **written_metrics(applied),
            **time_metrics(started, time.monotonic()),
            _COUNTER: (pc.sum(vectors["cardinality"]).as_py() or 0) - hidden_before,
        }
        if not len(touched):
            return uncommitted(snapshot, _NAME, metrics, conflicts)
        staging.keep()
        commit = transaction.commit(
            adds=applied.adds,
            removes=applied.removes,
            operation=operation_of(_NAME, statement.where),
            metrics=metrics,
            origin=origin,
            row_wise=is_exact(selection.predicate),
        )
        if commit.already_committed:
            staging.abandon()
    return result_of(log.table_uri, commit, metrics, conflicts)
