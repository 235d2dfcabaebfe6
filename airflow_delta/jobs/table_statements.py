"""Statements that define a table: create, alter, clone, convert, restore."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from airflow_delta.core.actions import Metadata, Origin, Protocol
from airflow_delta.core.committed import SOURCES_KEY
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.convert import convert
from airflow_delta.core.operations.file_copier import FileCopier
from airflow_delta.core.statements import (
    AlterStatement,
    CloneStatement,
    ConvertStatement,
    CreateStatement,
    DropFeature,
    OperationResult,
    RestoreStatement,
)
from airflow_delta.core.table_changes.statement_steps import new_table, partition_types, step_of
from airflow_delta.core.table_changes.verification import RowsCheck, check_rows
from airflow_delta.jobs.outcome import of_transaction, of_version, without_commit


def create_table(log: DeltaLog, statement: CreateStatement, *, origin: Origin) -> OperationResult:
    """Create the table. After a dry run, ``details`` holds the operation (``would``) and the definition of the ``table``.

    Raises:
        As ``DeltaLog.create``.
    """
    new = new_table(statement)
    if not statement.dry_run:
        return of_transaction(log, "CREATE TABLE", log.create(new, mode=statement.mode, origin=origin))
    plan = log.plan_create(new, mode=statement.mode)
    table = _described(plan.definition.metadata, plan.definition.protocol)
    return without_commit(
        log,
        plan.operation or "CREATE TABLE",
        plan.read_version,
        metrics={"numRemovedFiles": plan.removed_files},
        details={"would": plan.operation, "table": table},
    )


def alter_table(
    log: DeltaLog, statement: AlterStatement, *, origin: Origin, rows_check: RowsCheck = check_rows
) -> OperationResult:
    """Change the table. After a dry run, ``details`` holds the ``changes`` and the changed definition of the ``table``.

    Raises:
        As ``TableChanges`` and ``DeltaLog.drop_feature``.
    """
    match statement.changes:
        case (DropFeature(name, truncate_history=truncate),):
            return of_transaction(log, "DROP FEATURE", log.drop_feature(name, truncate_history=truncate, origin=origin))
    steps = [step_of(change, rows_check) for change in statement.changes]
    changes = log.alter(origin=origin)
    if not statement.dry_run:
        return of_transaction(log, "ALTER TABLE", changes.together(*steps))
    plan = changes.plan(*steps)
    return without_commit(
        log,
        plan.operation,
        log.snapshot().version,
        details={"changes": list(plan.changes), "table": _described(plan.table.metadata, plan.table.protocol)},
    )


def clone_table(
    log: DeltaLog, source: DeltaLog, statement: CloneStatement, *, origin: Origin, copier: FileCopier | None = None
) -> OperationResult:
    """Create the table on the source's files, or on copies; ``details`` holds the cloned version and its files and bytes.

    Raises:
        As ``DeltaLog.shallow_clone`` and ``DeltaLog.deep_clone``.
    """
    snapshot = source.snapshot(statement.source.version_number, statement.source.timestamp)
    pin = {"table": source.table_uri, "version": snapshot.version}
    origin = replace(origin, record={**origin.record, SOURCES_KEY: [pin]})
    clone = partial(source.deep_clone, copier=copier) if statement.deep else source.shallow_clone
    done = clone(
        log,
        version=snapshot.version,
        mode=statement.mode,
        properties=statement.properties,
        dry_run=statement.dry_run,
        origin=origin,
    )
    details = {"source_version": done.source_version, "files": done.files, "bytes": done.bytes}
    if done.created:
        return of_version(log, done.version, origin, details, commit=done.commit)
    return replace(without_commit(log, "CLONE", done.version, details=details), sources=(pin,))


def convert_table(log: DeltaLog, statement: ConvertStatement, *, origin: Origin, time_zone: str) -> OperationResult:
    """Convert the directory to a table; if it already is one, the result has its version.

    Arguments and errors: ``operations.convert``.
    """
    done = convert(
        log,
        partition_schema=partition_types(statement),
        infer_partitions=statement.infer_partitions,
        statistics=statement.statistics,
        properties=statement.properties,
        time_zone=time_zone,
        dry_run=statement.dry_run,
        origin=origin,
    )
    if done.converted:
        return of_version(log, done.version, origin, commit=done.commit)
    return without_commit(log, "CONVERT", done.version, metrics={"numConvertedFiles": done.files})


def restore_table(log: DeltaLog, statement: RestoreStatement, *, origin: Origin) -> OperationResult:
    """Restore the table to an earlier version, which is in ``details``.

    Raises:
        As ``DeltaLog.restore``.
    """
    done = log.restore(
        statement.version,
        statement.timestamp,
        ignore_missing_files=statement.ignore_missing_files,
        dry_run=statement.dry_run,
        origin=origin,
    )
    details = {"restored_version": done.restored_version}
    if statement.dry_run:
        return without_commit(log, "RESTORE", done.version, metrics=done.metrics(), details=details)
    return of_version(log, done.version, origin, details, commit=done.commit)


def _described(metadata: Metadata, protocol: Protocol) -> Mapping[str, Any]:
    """A table's definition as JSON values."""
    return {
        "schema": json.loads(metadata.schema_string),
        "partition_columns": list(metadata.partition_columns),
        "properties": dict(metadata.configuration),
        "protocol": protocol.to_json(),
    }
