"""Statements that maintain a table's files and log. Their commits carry no token, so a retry runs the statement again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Protocol

import pyarrow as pa

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.checkpoints import CheckpointResult
from airflow_delta.core.operations.vacuum_executor import VacuumExecutor
from airflow_delta.core.statements import (
    CheckpointStatement,
    CleanUpLogStatement,
    CompactLogStatement,
    OperationResult,
    StatisticsStatement,
    VacuumStatement,
)
from airflow_delta.jobs.outcome import of_version, without_commit

SHOWN_PATHS = 100
"""Most paths that a result lists, as results are stored in Airflow's database."""


def vacuum_table(
    log: DeltaLog, statement: VacuumStatement, *, origin: Origin, executor: VacuumExecutor | None = None
) -> OperationResult:
    """Delete files that no version needs; ``details`` has ``pins`` and ``damaged_pins``, of a dry run also the first ``paths``.

    Args:
        log: The log of the statement's table.
        statement: The statement.
        origin: The task that requests it.
        executor: Lists and deletes the files; None for this process.

    Raises:
        As ``DeltaLog.vacuum``.
    """
    read_version = log.snapshot().version
    done = log.vacuum(
        statement.retention_hours,
        dry_run=statement.dry_run,
        enforce_retention=statement.enforce_retention,
        lite=statement.lite,
        inventory=statement.inventory,
        origin=origin,
        executor=executor,
    )
    pins: dict[str, Any] = {"pins": [asdict(pin) for pin in done.pins]} if done.pins else {}
    if done.damaged_pins:
        pins["damaged_pins"] = list(done.damaged_pins)
    found: dict[str, int | str] = {"numFilesToDelete": done.files, "sizeOfDataToDelete": done.bytes}
    return OperationResult(
        table=log.table_uri,
        version=read_version if done.version is None else done.version,
        read_version=read_version,
        operation="VACUUM",
        committed=done.version is not None,
        metrics=found if statement.dry_run else found | {"numDeletedFiles": done.files},
        details=pins | ({"paths": _shown(done.paths)} if statement.dry_run else {}),
    )


class CheckpointWriter(Protocol):
    """Writes a checkpoint as ``DeltaLog.checkpoint`` does, in this process or on Spark."""

    def __call__(self, log: DeltaLog, version: int | None, /, *, kind: str | None) -> CheckpointResult:
        """Write the checkpoint of a version, None for the latest. Raises as ``DeltaLog.checkpoint`` does."""
        ...


def write_checkpoint(
    log: DeltaLog, statement: CheckpointStatement, *, writer: CheckpointWriter = DeltaLog.checkpoint
) -> OperationResult:
    """Write a checkpoint, in this process unless another writer is given.

    Raises:
        As ``DeltaLog.checkpoint``.
    """
    written = writer(log, statement.version, kind=statement.kind)
    metrics = {"numActions": written.actions, "numFiles": written.files, "numBytes": written.bytes}
    return without_commit(log, "CHECKPOINT", written.version, metrics=metrics)


def compact_log(log: DeltaLog, statement: CompactLogStatement) -> OperationResult:
    """Write commits into one compacted file; ``details`` holds its ``path``, None if there was nothing to compact.

    Raises:
        As ``DeltaLog.compact_log``.
    """
    done = log.compact_log(statement.start, statement.end)
    commits = 0 if done.path is None else done.end - done.start + 1
    metrics = {"numCompactedCommits": commits, "numActions": done.actions or 0}
    return without_commit(log, "COMPACT LOG", log.snapshot().version, metrics=metrics, details={"path": done.path})


def clean_up_log(log: DeltaLog, statement: CleanUpLogStatement) -> OperationResult:
    """Delete expired files of the log; ``details`` holds the ``barrier``, and after a dry run the first ``paths``.

    Raises:
        As ``DeltaLog.cleanup_log``.
    """
    done = log.cleanup_log(dry_run=statement.dry_run)
    metrics = {
        "numLogFiles": len(done.log_files),
        "numSidecars": len(done.sidecars),
        "numTemporaryFiles": len(done.temporaries),
    }
    paths = [*done.log_files, *done.sidecars, *done.temporaries][:SHOWN_PATHS]
    details = {"barrier": done.barrier} | ({"paths": paths} if statement.dry_run else {})
    return without_commit(log, "CLEAN UP LOG", log.snapshot().version, metrics=metrics, details=details)


def compute_statistics(log: DeltaLog, statement: StatisticsStatement, *, origin: Origin) -> OperationResult:
    """Compute the statistics that the table's properties require.

    Raises:
        As ``DeltaLog.recompute_statistics``.
    """
    done = log.recompute_statistics(
        statement.where, missing_only=statement.missing_only, dry_run=statement.dry_run, origin=origin
    )
    details = {"read": done.read, "changed": done.changed, "skipped": done.skipped}
    if statement.dry_run or not done.changed:
        return without_commit(log, "COMPUTE STATS", done.version, details=details)
    return of_version(log, done.version, origin, details, commit=done.commit)


def write_manifests(log: DeltaLog) -> OperationResult:
    """Write symlink manifests: lists of the table's files for readers without Delta support.

    Raises:
        As ``DeltaLog.generate_manifests``.
    """
    done = log.generate_manifests()
    metrics = {"numManifests": done.written, "numDeletedManifests": done.deleted, "numFiles": done.files}
    return without_commit(log, "GENERATE", done.version, metrics=metrics)


def _shown(paths: pa.Array) -> list[str]:
    return paths.slice(0, SHOWN_PATHS).to_pylist()
