"""OPTIMIZE: compacts small files, or clusters rows; rows do not change."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.managed_commits import Maintenance, check_permitted
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, OptimizeStatement
from airflow_delta.core.table_changes.column_path import path_text
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.wording import counted
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.optimize.clustered_rewrite import ClusteredRewrite
from airflow_delta.spark.optimize.cubes import tagged
from airflow_delta.spark.optimize.partition_choice import chosen_partitions
from airflow_delta.spark.optimize.plan import OptimizePlan, plan_of
from airflow_delta.spark.optimize.rearrangement import commit_rearrangement, planned_metrics
from airflow_delta.spark.rewrite.rewrite import FileRewrite, Rewritten
from airflow_delta.spark.statement.outcome import earlier_result, uncommitted
from airflow_delta.spark.statement.steps import log_step, size_of
from airflow_delta.spark.supported_features import check_rows_writable

_NAME = "OPTIMIZE"


def optimize(
    spark: SparkSession,
    log: DeltaLog,
    statement: OptimizeStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Compact small files, or cluster rows, in one commit that changes no data.

    Other writers may append, and change other files, meanwhile. The rewrite of a group of files is only lost if one of them was
    removed; the other groups are committed.

    Args:
        spark: The session.
        log: The table's log.
        statement: The statement.
        origin: The task run that executes the statement; a commit with its token counts as this statement's.
        start_version: Version of the table when the token was generated, after which that commit is searched.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: As ``chosen_partitions``.
        UnsuitableColumnsError: The rows cannot be clustered by these columns.
        MaintenanceNotPermittedError: As ``run_plan``.
    """
    earlier = earlier_result(log, origin or Origin(), start_version)
    if earlier is not None:
        return earlier
    snapshot = log.refresh()
    plan = plan_of(snapshot, statement, chosen_partitions(spark, snapshot, statement.where))
    return run_plan(spark, log, snapshot, plan, statement, origin=origin or Origin())


def run_plan(
    spark: SparkSession,
    log: DeltaLog,
    snapshot: Snapshot,
    plan: OptimizePlan,
    statement: OptimizeStatement,
    *,
    origin: Origin,
    is_automatic: bool = False,
) -> OperationResult:
    """Execute the plan, and commit.

    Args:
        spark: The session.
        log: The table's log.
        snapshot: The version that the plan is based on.
        plan: The plan.
        statement: What was requested, for the history.
        origin: The task run that the commit records.
        is_automatic: Whether the table's properties requested it, not the user.

    Raises:
        MaintenanceNotPermittedError: The table is catalog-managed, and the catalog does not permit this to clients.
    """
    check_rows_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    if statement.dry_run or not len(plan.inputs):
        planned = uncommitted(snapshot, _NAME, planned_metrics(plan.inputs, plan.new_files))
        return replace(planned, details=plan.details())
    check_permitted(log.store, Maintenance.DATA_LAYOUT)
    log_step("Rewriting %s (%s) into about %s", counted(len(plan.inputs), "file"), size_of(plan.inputs), plan.new_files)
    with StagingArea(log.store) as staging:
        rewritten = _rewritten(spark, log, snapshot, plan, staging)
        staging.keep()
        result = commit_rearrangement(
            log,
            snapshot,
            _operation(plan, statement, is_automatic=is_automatic),
            inputs=plan.inputs,
            groups=plan.groups,
            rewritten=rewritten,
            origin=origin,
        )
        staging.settle(unused=not result.committed or result.already_committed)
    return replace(result, details={**result.details, **plan.details()})


def _rewritten(spark: SparkSession, log: DeltaLog, snapshot: Snapshot, plan: OptimizePlan, staging: StagingArea) -> Rewritten:
    if not plan.columns:
        rewrite = FileRewrite(
            snapshot=snapshot, inputs=plan.inputs, outputs=plan.groups, directory=staging.name, data_change=False
        )
        return rewrite.concatenate(spark, clock=log.clock)
    ordered = ClusteredRewrite(
        snapshot=snapshot,
        inputs=plan.inputs,
        groups=plan.groups,
        paths=plan.columns,
        file_size=plan.file_size,
        directory=staging.name,
    ).run(spark, clock=log.clock)
    if not plan.is_clustered:
        return ordered
    return replace(ordered, adds=tagged(ordered.adds, ordered.outputs, list(map(path_text, plan.columns))))


def _operation(plan: OptimizePlan, statement: OptimizeStatement, *, is_automatic: bool) -> Operation:
    """The operation as the history shows it."""
    columns = list(map(path_text, plan.columns))
    parameters = {
        "predicate": [statement.where] if statement.where else [],
        "zOrderBy": [] if plan.is_clustered else columns,
        "clusterBy": columns if plan.is_clustered else [],
        "auto": is_automatic,
    }
    if plan.is_clustered:
        parameters["isFull"] = statement.full
    return Operation(name=_NAME, parameters=parameters, changes_data=False)
