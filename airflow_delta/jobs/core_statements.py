"""Statements that run without Spark: in a job, which has access to the data, or in an Airflow worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_delta.core.actions import Origin
from airflow_delta.core.committed import committed_result
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.statements import (
    AlterStatement,
    CheckpointStatement,
    CleanUpLogStatement,
    CloneStatement,
    CompactLogStatement,
    ConvertStatement,
    CreateStatement,
    DiscardStatement,
    DropStatement,
    HealthStatement,
    MaintenanceStatement,
    ManifestStatement,
    OperationResult,
    PinStatement,
    PublishStatement,
    RestoreStatement,
    SequenceStatement,
    Statement,
    StatisticsStatement,
    VacuumStatement,
)
from airflow_delta.jobs.commits import commits_of
from airflow_delta.jobs.drop_statement import execute_drop
from airflow_delta.jobs.health_check import execute_health_check
from airflow_delta.jobs.idempotent_log import AlreadyCommitted, IdempotentLog
from airflow_delta.jobs.in_order import Step, run_in_order
from airflow_delta.jobs.maintenance import Maintenance
from airflow_delta.jobs.maintenance_statements import (
    clean_up_log,
    compact_log,
    compute_statistics,
    vacuum_table,
    write_checkpoint,
    write_manifests,
)
from airflow_delta.jobs.pin_statement import execute_pin
from airflow_delta.jobs.publish_statements import execute_discard, execute_publish
from airflow_delta.jobs.runner import Backend, Runner, StatementRun, runner
from airflow_delta.jobs.table_statements import (
    alter_table,
    clone_table,
    convert_table,
    create_table,
    restore_table,
)


def _maintain(run: StatementRun, statement: MaintenanceStatement) -> OperationResult:
    return Maintenance(
        log=run.log,
        statement=statement,
        origin=run.origin,
        start_version=run.start_version,
        optimizer=run.backend.optimizer,
        executor=run.backend.vacuum_executor,
    ).run()


def _run_sequence(run: StatementRun, sequence: SequenceStatement) -> OperationResult:
    def execute(step: Step) -> OperationResult:
        if run.backend.execute is not None:
            return run.backend.execute(step.log, step.statement, step.origin, step.start_version)
        return execute_in_core(
            step.log, step.statement, origin=step.origin, start_version=step.start_version, backend=run.backend
        )

    return run_in_order(run, sequence, execute=execute)


RUNNERS: Mapping[type, Runner] = dict(
    (
        runner(CreateStatement, lambda run, statement: create_table(run.log, statement, origin=run.origin)),
        runner(
            AlterStatement,
            lambda run, statement: alter_table(run.log, statement, origin=run.origin, rows_check=run.backend.rows_check),
        ),
        runner(
            CloneStatement,
            lambda run, statement: clone_table(
                run.log,
                run.backend.open_table(statement.source.table),
                statement,
                origin=run.origin,
                copier=run.backend.file_copier,
            ),
        ),
        runner(
            ConvertStatement,
            lambda run, statement: convert_table(run.log, statement, origin=run.origin, time_zone=run.backend.time_zone()),
        ),
        runner(RestoreStatement, lambda run, statement: restore_table(run.log, statement, origin=run.origin)),
        runner(DropStatement, lambda run, statement: execute_drop(run.log, statement, run.backend.catalog)),
        runner(PinStatement, lambda run, statement: execute_pin(statement, run.backend.open_table, run.origin)),
        runner(PublishStatement, lambda run, statement: execute_publish(statement, run.backend.open_table, run.origin)),
        runner(DiscardStatement, lambda run, statement: execute_discard(statement, run.backend.open_table, run.origin)),
        runner(
            VacuumStatement,
            lambda run, statement: vacuum_table(run.log, statement, origin=run.origin, executor=run.backend.vacuum_executor),
        ),
        runner(
            CheckpointStatement,
            lambda run, statement: write_checkpoint(run.log, statement, writer=run.backend.checkpoint_writer),
        ),
        runner(CompactLogStatement, lambda run, statement: compact_log(run.log, statement)),
        runner(CleanUpLogStatement, lambda run, statement: clean_up_log(run.log, statement)),
        runner(StatisticsStatement, lambda run, statement: compute_statistics(run.log, statement, origin=run.origin)),
        runner(ManifestStatement, lambda run, _: write_manifests(run.log)),
        runner(HealthStatement, lambda run, statement: execute_health_check(run.log, statement)),
        runner(MaintenanceStatement, _maintain),
        runner(SequenceStatement, _run_sequence),
    )
)
"""How to run each statement that does not need Spark, by its class."""


def execute_in_core(
    log: DeltaLog,
    statement: Statement,
    *,
    origin: Origin,
    start_version: int | None = None,
    backend: Backend = Backend(),  # noqa: B008 - it is frozen
) -> OperationResult:
    """Execute a statement, whose class is in ``RUNNERS``, in this process.

    Args:
        log: The log of the statement's table.
        statement: The statement.
        origin: The task that requests it.
        start_version: The table's version when the origin's idempotency token was generated (-1 for no table). With it, the
            commit of a duplicate attempt is found, even if the statement fails because that attempt has already created the
            table or added the column.
        backend: Runs the parts of the statement that Spark may do.

    Raises:
        DeltaError: The statement failed.
    """
    execute = RUNNERS[type(statement)]
    run = StatementRun(log=log, origin=origin, start_version=start_version, backend=backend)
    if origin.token is None or start_version is None or commits_of(statement) != "once":
        return execute(run, statement)
    try:
        return execute(replace(run, log=IdempotentLog(log, origin.token, start_version)), statement)
    except (DeltaError, AlreadyCommitted):
        found = committed_result(log, origin.token, start_version)
        if found is None:
            raise
        return found
