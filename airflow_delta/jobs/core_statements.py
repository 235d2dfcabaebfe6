"""Statements that the core executes without Spark: in a job, where the access to the data is, or in an Airflow worker."""

from __future__ import annotations

from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import committed_result
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import HealthStatement, OperationResult
from airflow_delta.core.table_changes.verification import RowsCheck, check_rows
from airflow_delta.jobs.health_check import execute_health_check
from airflow_delta.jobs.idempotent_log import AlreadyCommitted, IdempotentLog
from airflow_delta.jobs.maintenance_statements import TableMaintenanceStatement, execute_maintenance_statement
from airflow_delta.jobs.table_statements import OpenTable, TableStatement, execute_table_statement

CoreStatement = TableStatement | TableMaintenanceStatement | HealthStatement
"""The statements that need no Spark."""


def execute_in_core(
    log: DeltaLog,
    statement: CoreStatement,
    *,
    origin: Origin,
    start_version: int | None = None,
    open_table: OpenTable = DeltaLog.for_table,
    rows_check: RowsCheck = check_rows,
) -> OperationResult:
    """Execute the statement in this process.

    Args:
        log: Of the statement's table.
        statement: What to do.
        origin: The task that requests it.
        start_version: The table's version when the origin's idempotency token was generated (-1 for no table). With it the
            commit of a duplicate attempt is found, which may have created the table, or added the column, that is in the way.
        open_table: Opens the other tables that the statement names.
        rows_check: Checks the table's rows against a new constraint.

    Raises:
        DeltaError: The statement failed.
    """
    if origin.token is None or start_version is None:
        return _execute(log, statement, origin, open_table, rows_check)
    try:
        return _execute(IdempotentLog(log, origin.token, start_version), statement, origin, open_table, rows_check)
    except (DeltaError, AlreadyCommitted):
        found = committed_result(log, origin.token, start_version)
        if found is None:
            raise
        return found


def _execute(
    log: DeltaLog, statement: CoreStatement, origin: Origin, open_table: OpenTable, rows_check: RowsCheck
) -> OperationResult:
    if isinstance(statement, HealthStatement):
        return execute_health_check(log, statement)
    if isinstance(statement, TableStatement):
        return execute_table_statement(log, statement, origin=origin, open_table=open_table, rows_check=rows_check)
    return execute_maintenance_statement(log, statement, origin=origin)
