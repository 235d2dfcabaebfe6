"""Changing the rows that a condition selects: found on one version, written, committed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.predicate import is_exact
from airflow_delta.core.statements import Expectation, OperationResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.dml.application import AppliedChanges, apply_changes, check_new_rows
from airflow_delta.spark.dml.clauses import BoundClauses
from airflow_delta.spark.dml.effects import count_effects
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.statement.outcome import result_of, uncommitted
from airflow_delta.spark.statement.target_reads import TargetReads
from airflow_delta.spark.supported_features import ENFORCED

NO_FILE_WRITTEN = {
    "numAddedFiles": 0,
    "numAddedBytes": 0,
    "numAddedChangeFiles": 0,
    "numCopiedRows": 0,
    "numDeletionVectorsAdded": 0,
    "numDeletionVectorsUpdated": 0,
}
"""Metrics by Delta's names, of a statement that writes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """What a statement does with the rows that it selects.

    Attributes:
        name: Delta's name of the operation.
        counter: Delta's name of the metric that counts the rows.
        where: The condition, as the history shows it.
        clauses: What becomes of a selected row.
        expect: Checks on the new rows.
        dry_run: Whether nothing is to be committed.
        origin: Who asks.
    """

    name: str
    counter: str
    where: str | None
    clauses: BoundClauses
    expect: tuple[Expectation, ...] = ()
    dry_run: bool = False
    origin: Origin

    @property
    def operation(self) -> Operation:
        """As the history shows it."""
        return operation_of(self.name, self.where)


def operation_of(name: str, where: str | None) -> Operation:
    """The operation on the rows of a condition, as the history shows it."""
    return Operation(name=name, parameters={"predicate": [where or "true"]})


def removal_metrics(removed: pa.Table) -> dict[str, int]:
    """What taking these files (``ADD_FILE``) from the log counts, by Delta's names."""
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": pc.sum(removed["size"]).as_py() or 0,
        "numDeletionVectorsRemoved": len(removed) - removed["deletion_vector"].null_count,
    }


def written_metrics(applied: AppliedChanges) -> dict[str, int]:
    """What was written and removed, by Delta's names."""
    return {
        "numRemovedFiles": applied.removed_files,
        "numAddedFiles": applied.new_files,
        "numAddedBytes": applied.bytes_added,
        "numAddedChangeFiles": len(applied.changes),
        "numCopiedRows": applied.copied,
        "numDeletionVectorsAdded": applied.vectors_added,
        "numDeletionVectorsRemoved": applied.vectors_removed,
        "numDeletionVectorsUpdated": applied.vectors_updated,
    }


def time_metrics(started: float, scanned: float) -> dict[str, int]:
    """What a statement took until now, by Delta's names; its rows were known at ``scanned``."""
    now = time.monotonic()
    seconds = {"executionTimeMs": now - started, "scanTimeMs": scanned - started, "rewriteTimeMs": now - scanned}
    return {name: round(each * 1000) for name, each in seconds.items()}


def change_selected_rows(
    spark: SparkSession,
    log: DeltaLog,
    selection: Selection,
    change: RowChange,
    conflicts: Sequence[Mapping[str, Any]],
) -> OperationResult:
    """Write the files that hold selected rows anew, and commit it; nothing stays behind when that fails.

    Args:
        spark: The session.
        log: The table's log.
        selection: Which rows, of which version.
        change: What becomes of them.
        conflicts: The winners that ended earlier attempts.
    """
    started, snapshot = time.monotonic(), selection.snapshot
    transaction = log.start_transaction(snapshot, enforces=ENFORCED)
    transaction.record_read(selection.predicate)
    candidates = selection.candidates()
    reads = TargetReads(spark=spark, snapshot=snapshot, is_redo=bool(conflicts))
    staged = selection.stage(spark, change.clauses, candidates, reads)
    effects = count_effects(staged, are_matches_unique=True)
    touched = candidates.take(effects.touched_files)
    transaction.record_read_files(touched["path"])
    check_new_rows(spark, change.expect, staged, {}, reads)
    reads.record(transaction)
    scanned = time.monotonic()
    metrics = {**NO_FILE_WRITTEN, **removal_metrics(touched), change.counter: effects.updated + effects.deleted}
    if change.dry_run or effects.is_nothing:
        return uncommitted(snapshot, change.name, metrics, conflicts)
    with StagingArea(snapshot.store) as staging:
        applied = apply_changes(staged, effects, staging, log.clock)
        metrics |= written_metrics(applied) | time_metrics(started, scanned)
        staging.keep()
        commit = transaction.commit(
            adds=applied.adds,
            removes=applied.removes,
            changes=applied.changes,
            operation=change.operation,
            metrics=metrics,
            origin=change.origin,
            row_wise=is_exact(selection.predicate) and not effects.updated,  # new values may come from anywhere
        )
        if commit.already_committed:
            staging.abandon()
    return result_of(snapshot.table_uri, commit, metrics, conflicts)
