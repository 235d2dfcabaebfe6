"""Statements that the core does alone; they run in a job because that is where the access to the data is."""

from __future__ import annotations

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import CheckpointStatement, OperationResult, VacuumStatement


def vacuum(log: DeltaLog, statement: VacuumStatement, *, origin: Origin) -> OperationResult:
    """Delete (or in a dry run count) the files that no retained version needs. Raises as ``DeltaLog.vacuum``."""
    read_version = log.snapshot().version
    done = log.vacuum(
        statement.retention_hours,
        dry_run=statement.dry_run,
        enforce_retention=statement.enforce_retention,
        origin=origin,
    )
    found: dict[str, int | str] = {"numFilesToDelete": done.files, "sizeOfDataToDelete": done.bytes}
    return OperationResult(
        table=log.table_uri,
        version=read_version if done.version is None else done.version,
        read_version=read_version,
        operation="VACUUM",
        committed=done.version is not None,
        metrics=found if statement.dry_run else found | {"numDeletedFiles": done.files},
    )


def checkpoint(log: DeltaLog, statement: CheckpointStatement) -> OperationResult:
    """Write the checkpoint. Raises as ``DeltaLog.checkpoint``."""
    written = log.checkpoint(statement.version)
    return OperationResult(
        table=log.table_uri,
        version=written.version,
        read_version=written.version,
        operation="CHECKPOINT",
        committed=False,
        metrics={"numActions": written.actions, "numFiles": written.files, "numBytes": written.bytes},
    )
