"""Spark as the backend for parts of the core's statements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import OperationResult, OptimizeStatement, Statement, TableStatement
from airflow_delta.jobs.runner import Backend
from airflow_delta.jobs.spec import JobSpec
from airflow_delta.spark.constraints.verification import check_rows
from airflow_delta.spark.distributed.checkpoint import checkpoint
from airflow_delta.spark.distributed.file_copy import SparkFileCopier
from airflow_delta.spark.distributed.vacuum import SparkVacuumExecutor
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.session import time_zone
from airflow_delta.spark.session_catalog import SessionCatalog


def spark_backend(
    spark: SparkSession,
    log: DeltaLog,
    spec: JobSpec,
    *,
    execute: Callable[[DeltaLog, TableStatement, Origin, int | None], OperationResult],
    typed_error: Callable[[Exception, Statement], DeltaError],
) -> Backend:
    """Spark as the backend of a statement.

    Args:
        spark: The session.
        log: The log of the statement's table.
        spec: The job's spec.
        execute: Runs a statement of a sequence.
        typed_error: Converts the error of a failed OPTIMIZE.
    """

    def optimizer(step: OptimizeStatement) -> OperationResult:
        try:
            return optimize(spark, log, step, origin=spec.origin, start_version=spec.start_version)
        except Exception as error:
            raise typed_error(error, step) from error

    return Backend(
        open_table=partial(table_log, spark),
        rows_check=partial(check_rows, spark),
        vacuum_executor=SparkVacuumExecutor(spark),
        file_copier=SparkFileCopier(spark),
        checkpoint_writer=partial(checkpoint, spark),
        time_zone=partial(time_zone, spark),
        catalog=SessionCatalog(spark) if spec.has_session_names else None,
        optimizer=optimizer,
        execute=execute,
        earliest_commit_time=spec.earliest_commit_time,
    )
