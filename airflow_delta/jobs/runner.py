"""Runners, which run the statements of one type, and backends, which run the parts of them that Spark does better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_delta.catalogs.catalog import Catalog
from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.file_copier import FileCopier
from airflow_delta.core.operations.vacuum_executor import VacuumExecutor
from airflow_delta.core.statements import OperationResult, TableStatement
from airflow_delta.core.table_changes.verification import RowsCheck, check_rows
from airflow_delta.jobs.maintenance import Optimizer
from airflow_delta.jobs.maintenance_statements import CheckpointWriter

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What runs the parts of a statement; by default this process alone.

    Attributes:
        open_table: Opens the other tables that a statement names.
        rows_check: Checks the table's rows against a new constraint.
        vacuum_executor: Lists and deletes files; None for this process.
        file_copier: Copies the files of a deep clone; None for this process.
        checkpoint_writer: Writes checkpoints.
        time_zone: Returns the session's time zone, as Spark names it.
        catalog: The session's catalog, whose names a statement may drop; None if the job does not resolve names.
        optimizer: Runs the OPTIMIZE of a maintenance; None without Spark, where the step is only reported as due.
        execute: Runs a statement of a sequence, of any type; None without Spark, where the core runs all of them.
        earliest_commit_time: Milliseconds since the epoch, before which the task has made no commit; None if unknown.
    """

    open_table: Callable[[str], DeltaLog] = DeltaLog.for_table
    rows_check: RowsCheck = check_rows
    vacuum_executor: VacuumExecutor | None = None
    file_copier: FileCopier | None = None
    checkpoint_writer: CheckpointWriter = DeltaLog.checkpoint
    time_zone: Callable[[], str] = lambda: "UTC"
    catalog: Catalog | None = None
    optimizer: Optimizer | None = None
    execute: Callable[[DeltaLog, TableStatement, Origin, int | None], OperationResult] | None = None
    earliest_commit_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRun:
    """One run of a statement.

    Attributes:
        log: The log of the statement's table.
        origin: The task that requests it.
        start_version: The table's version when the origin's idempotency token was generated (-1 for no table); None if unknown.
        backend: What runs the parts of the statement.
    """

    log: DeltaLog
    origin: Origin
    start_version: int | None
    backend: Backend


Runner = Callable[[StatementRun, Any], OperationResult]
"""Runs the statements of one type. Raises the statement's ``DeltaError``."""


def runner(statement_type: type[S], function: Callable[[StatementRun, S], OperationResult]) -> tuple[type[S], Runner]:
    """An entry of a registry; its signature lets the type checker verify that the function takes statements of this type."""
    return statement_type, function
