"""UPDATE: changed rows are written in place of their file, or, if their partition changes, to the new partition."""

from __future__ import annotations

import time
from functools import partial

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import MatchedUpdate, OperationResult, UpdateStatement
from airflow_delta.spark.constraints.column_references import ambiguous_member
from airflow_delta.spark.constraints.violations import row_rules
from airflow_delta.spark.dml.analysis import analyze, no_rows
from airflow_delta.spark.dml.application import apply_changes, check_new_rows
from airflow_delta.spark.dml.clauses import BoundClauses, bind_clauses
from airflow_delta.spark.dml.deletion_vectors import uses_deletion_vectors
from airflow_delta.spark.dml.effects import count_effects
from airflow_delta.spark.dml.history import NO_FILE_WRITTEN, operation_of, removal_metrics, time_metrics, written_metrics
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.statement.conflict_retry import Conflicts, Steps, retry_on_conflict
from airflow_delta.spark.statement.outcome import result_of, uncommitted
from airflow_delta.spark.statement.target_reads import TargetReads
from airflow_delta.spark.supported_features import ENFORCED

_NAME, _COUNTER = "UPDATE", "numUpdatedRows"


def update(
    spark: SparkSession,
    log: DeltaLog,
    statement: UpdateStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Update the rows and commit, or raise and leave the table unchanged.

    Args:
        spark: The session.
        log: The table's log.
        statement: The statement.
        origin: The task run that executes the statement; a commit with its token counts as this statement's.
        start_version: As of ``retry_on_conflict``.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: The condition does not fit the table.
        SchemaMismatchError: An assignment names an unknown column, or its value does not fit.
        ConstraintViolatedError: A NOT NULL column contains NULL.
        ExpectationFailedError: An expectation does not hold.
        CommitConflictError: Every attempt conflicted, or a concurrent commit changed the metadata or protocol.
    """
    origin = origin or Origin()
    with RowCache(None if statement.dry_run else log.store) as cache:
        steps = Steps(
            name=_NAME,
            read=log.refresh,
            prepare=partial(Selection.for_change, spark, statement.where),
            attempt=partial(_attempt, spark=spark, log=log, statement=statement, origin=origin, cache=cache),
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
    statement: UpdateStatement,
    origin: Origin,
    cache: RowCache,
) -> OperationResult:
    """Rewrite the files with selected rows, and commit; if that fails, no files are left behind."""
    cache.release()  # what an earlier attempt kept
    clauses = _bind(spark, snapshot, statement)
    started = time.monotonic()
    transaction = log.start_transaction(snapshot, enforces=ENFORCED)
    transaction.record_read(selection.predicate)
    candidates = selection.candidates()
    reads = TargetReads(spark=spark, snapshot=snapshot, is_retry=bool(conflicts))
    staged = selection.stage(spark, clauses, candidates, cache=cache, reads=reads)
    effects = count_effects(staged, are_matches_unique=True)
    touched = candidates.take(effects.touched_files)
    transaction.record_read_files(touched["path"])
    check_new_rows(spark, statement.expect, staged, {}, reads)
    reads.record(transaction)
    scanned = time.monotonic()
    metrics = {**NO_FILE_WRITTEN, **removal_metrics(touched), _COUNTER: effects.updated}
    if statement.dry_run or effects.is_nothing:
        return uncommitted(snapshot, _NAME, metrics, conflicts)
    with StagingArea(snapshot.store) as staging:
        applied = apply_changes(staged, effects, staging, log.clock)
        metrics |= written_metrics(applied) | time_metrics(started, scanned)
        staging.keep()
        # Not row-wise: new values may depend on other rows.
        commit = transaction.commit(
            adds=applied.adds,
            removes=applied.removes,
            changes=applied.changes,
            operation=operation_of(_NAME, statement.where),
            metrics=metrics,
            origin=origin,
        )
        staging.settle(unused=commit.already_committed)
    return result_of(log.table_uri, commit, metrics, conflicts)


def _bind(spark: SparkSession, snapshot: Snapshot, statement: UpdateStatement) -> BoundClauses:
    """The assignments, bound to the table and analyzed by Spark."""
    values = ((name, ambiguous_member(text, snapshot.schema)) for name, text in statement.assignments.items())
    if differences := tuple(f"{name}: {ambiguity}" for name, ambiguity in values if ambiguity is not None):
        raise SchemaMismatchError(table=snapshot.table_uri, differences=differences)
    clauses = bind_clauses(
        [MatchedUpdate(assignments=statement.assignments)],
        snapshot.schema,
        snapshot.partition_columns,
        table=snapshot.table_uri,
        whole_rows=bool(statement.expect) or uses_deletion_vectors(snapshot),
        rules=row_rules(snapshot.metadata, snapshot.schema).values(),
    )
    return analyze(clauses, snapshot.schema, matched=no_rows(spark, snapshot.schema), table=snapshot.table_uri)
