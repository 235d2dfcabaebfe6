"""EXPECT: checks expectations on a table's rows."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import ExpectStatement, OperationResult
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.statement.expectations import check_expectations
from airflow_delta.spark.statement.outcome import uncommitted
from airflow_delta.spark.statement.sources import as_staged
from airflow_delta.spark.statement.steps import log_step
from airflow_delta.spark.statement.target_reads import TargetReads


def expect(
    spark: SparkSession,
    log: DeltaLog,
    statement: ExpectStatement,
    *,
    origin: Origin | None = None,  # noqa: ARG001 - nothing is committed
    start_version: int | None = None,  # noqa: ARG001
) -> OperationResult:
    """Check the expectations on the newest version of the table, or on a staged one.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: ``where`` does not fit the table.
        ExpectationFailedError: An expectation does not hold.
        ExpectationUnreadableError: Spark cannot analyze an expectation on these rows.
    """
    snapshot = as_staged(log, statement.staged).refresh()
    rows = read_table(spark, snapshot, where=statement.where)
    if statement.where is not None:
        rows = rows.where(sql_expression(statement.where))
    no_target = TargetReads(spark=spark, snapshot=None)
    check_expectations(spark, statement.expect, rows, {}, table=snapshot.table_uri, reads=no_target)
    log_step("Expectations: %s hold at version %s", len(statement.expect), str(snapshot.version))
    return uncommitted(snapshot, "EXPECT", {"numExpectations": len(statement.expect)})
