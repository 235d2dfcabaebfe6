"""MERGE: the statement, retried on a fresh snapshot after a write conflict."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import MergeStatement, OperationResult
from airflow_delta.spark.dml.merge.attempt import attempt_merge
from airflow_delta.spark.dml.merge.plan import MergePlan, plan_merge
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.statement.conflict_retry import Steps, retry_on_conflict


def merge(
    spark: SparkSession,
    log: DeltaLog,
    statement: MergeStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
    txn: tuple[str, int] | None = None,
) -> OperationResult:
    """Run a MERGE and commit it, or raise and leave the table unchanged.

    After a conflict the match is computed again on the newest version, with the source rows read at first; they are read again
    if the source reads the target itself.

    Args:
        spark: The session.
        log: The target's log.
        statement: The statement.
        origin: The task run that executes the statement; a commit with its token counts as this statement's.
        start_version: As of ``retry_on_conflict``.
        txn: Application id and version, which grows with each statement: nothing is done if the table has recorded this or a
            greater version.

    Raises:
        TableNotFoundError: The target does not exist; nothing is created.
        SchemaMismatchError: A clause references unknown columns, or values do not fit their column.
        MultipleSourceRowsMatchedError: A target row has more than one match.
        ConstraintViolatedError: A NOT NULL column contains NULL.
        ExpectationFailedError: An expectation does not hold.
        CommitConflictError: Every attempt conflicted, or a concurrent commit changed the metadata or protocol.
    """
    origin = origin or Origin()
    store = None if statement.dry_run else log.store
    with RowCache(store) as source, RowCache(store) as changes:
        steps = Steps(
            name="MERGE",
            read=log.refresh,
            prepare=partial(plan_merge, spark=spark, statement=statement, origin=origin, cache=source),
            attempt=partial(attempt_merge, spark=spark, log=log, txn=txn, cache=changes),
            after_conflict=MergePlan.after_conflict,
            txn=txn,
        )
        return retry_on_conflict(log, steps, origin=origin, start_version=start_version)
