"""Run a spec: it becomes a commit, or a typed error. The session is passed in; nothing here knows where it runs."""

from __future__ import annotations

import re
import time
import traceback
from dataclasses import replace
from functools import partial

from pyspark.errors import AnalysisException, ParseException, PythonException
from pyspark.sql import SparkSession

from airflow_delta.core.committed import committed_result, version_before
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import (
    CheckpointStatement,
    DeleteStatement,
    HealthStatement,
    MaintenanceStatement,
    MergeStatement,
    OperationResult,
    OptimizeStatement,
    PinStatement,
    ReorgStatement,
    Statement,
    UpdateStatement,
    VacuumStatement,
    WriteStatement,
)
from airflow_delta.core.storage.storage_failures import storage_failure
from airflow_delta.jobs.core_statements import execute_in_core
from airflow_delta.jobs.errors import AccessDeniedError, JobFailedError, MissingPackageError, SparkAnalysisError
from airflow_delta.jobs.maintenance import Maintenance
from airflow_delta.jobs.maintenance_statements import vacuum_table, write_checkpoint
from airflow_delta.jobs.outcome import with_dry_run_flag
from airflow_delta.jobs.pin_statement import execute_pin
from airflow_delta.jobs.redaction import redact
from airflow_delta.jobs.result import ResultDocument
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.jobs.table_stats import attach_table_stats
from airflow_delta.spark.constraints.verification import check_rows
from airflow_delta.spark.distributed.checkpoint import checkpoint
from airflow_delta.spark.distributed.vacuum import SparkVacuumExecutor
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.optimize.auto_compaction import compacted_after
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.optimize.reorg import reorg
from airflow_delta.spark.write.write import write

_WITHOUT_COMMIT = HealthStatement | PinStatement
"""Statements whose commit need not be searched, as they make none; the first also works on a log that cannot be read."""

_MISSING_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '(?P<package>[\w.]+)'")


def run(spark: SparkSession, spec: JobSpec) -> ResultDocument:
    """Run the spec. Never raises: errors are in the document."""
    began = time.monotonic()
    try:
        log = table_log(spark, spec.statement.table)
        leaves_commit = not isinstance(spec.statement, _WITHOUT_COMMIT)
        if leaves_commit and spec.start_version is None and spec.earliest_commit_time is not None:
            spec = replace(spec, start_version=version_before(log, spec.earliest_commit_time))
        with typed_worker_errors():
            outcome = with_dry_run_flag(execute(spark, log, spec), spec.statement)
    except Exception as error:  # noqa: BLE001 - a job ends in a document, whatever happened
        return ResultDocument.of_error(_typed_error(error, spec.statement), redact(traceback.format_exc()))
    return attach_table_stats(ResultDocument(outcome=outcome, duration_ms=round(1_000 * (time.monotonic() - began))), log)


def execute(spark: SparkSession, log: DeltaLog, spec: JobSpec) -> OperationResult:
    """Execute the statement, unless a commit with its token exists already.

    Args:
        spark: The session.
        log: Of the statement's table.
        spec: What to do.

    Raises:
        DeltaError: The statement failed. Nothing was committed then.
    """
    token = spec.origin.token
    is_one_commit = not isinstance(spec.statement, MaintenanceStatement)  # a commit with its token is one step of several
    if token is not None and is_one_commit and not isinstance(spec.statement, _WITHOUT_COMMIT):
        found = committed_result(log, token, spec.start_version)
        if found is not None:
            return found
    return _execute(spark, log, spec)


def _execute(spark: SparkSession, log: DeltaLog, spec: JobSpec) -> OperationResult:
    statement, origin = spec.statement, spec.origin
    match statement:
        case WriteStatement() | MergeStatement() | DeleteStatement() | UpdateStatement():
            return compacted_after(spark, log, _change_rows(spark, log, spec, statement), origin)
        case OptimizeStatement():
            return optimize(spark, log, statement, origin=origin, start_version=spec.start_version)
        case ReorgStatement():
            return reorg(spark, log, statement, origin=origin, start_version=spec.start_version)
        case MaintenanceStatement():
            return _maintain(spark, log, spec, statement)
        case VacuumStatement():
            return vacuum_table(log, statement, origin=origin, executor=SparkVacuumExecutor(spark))
        case CheckpointStatement():
            return write_checkpoint(log, statement, writer=partial(checkpoint, spark))
        case PinStatement():
            return execute_pin(statement, partial(table_log, spark), origin)
        case _:
            open_table = partial(table_log, spark)
            return execute_in_core(
                log,
                statement,
                origin=origin,
                start_version=spec.start_version,
                open_table=open_table,
                rows_check=partial(check_rows, spark),
            )


def _change_rows(
    spark: SparkSession,
    log: DeltaLog,
    spec: JobSpec,
    statement: WriteStatement | MergeStatement | DeleteStatement | UpdateStatement,
) -> OperationResult:
    match statement:
        case WriteStatement():
            return write(spark, log, statement, origin=spec.origin, start_version=spec.start_version)
        case MergeStatement():
            return merge(spark, log, statement, origin=spec.origin, start_version=spec.start_version)
        case DeleteStatement():
            return delete(spark, log, statement, origin=spec.origin, start_version=spec.start_version)
        case UpdateStatement():
            return update(spark, log, statement, origin=spec.origin, start_version=spec.start_version)


def _maintain(spark: SparkSession, log: DeltaLog, spec: JobSpec, statement: MaintenanceStatement) -> OperationResult:
    def optimizer(step: OptimizeStatement) -> OperationResult:
        try:
            return optimize(spark, log, step, origin=spec.origin, start_version=spec.start_version)
        except Exception as error:
            raise _typed_error(error, step) from error

    return Maintenance(
        log=log,
        statement=statement,
        origin=spec.origin,
        start_version=spec.start_version,
        optimizer=optimizer,
        executor=SparkVacuumExecutor(spark),
    ).run()


def _typed_error(error: Exception, statement: Statement) -> DeltaError:
    operation = type(statement).__name__.removesuffix("Statement").upper()
    match error:
        case DeltaError():
            return error
        case AnalysisException() | ParseException():
            condition = error.getCondition() or type(error).__name__
            detail = redact(str(error).strip().splitlines()[0])
            return SparkAnalysisError(table=statement.table, operation=operation, condition=condition, detail=detail)
        case PythonException() if missing := _MISSING_PACKAGE.search(str(error)):
            return MissingPackageError(table=statement.table, operation=operation, package=missing["package"])
        case PermissionError():
            return AccessDeniedError(table=statement.table, detail=redact(str(error)))
        case OSError() if failure := storage_failure(error, statement.table):
            return replace(failure, detail=redact(failure.detail))
        case _:
            detail = redact(str(error).strip())[:2_000]
            return JobFailedError(table=statement.table, operation=operation, error=type(error).__name__, detail=detail)
