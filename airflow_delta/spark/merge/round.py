"""One round of a MERGE: match on one version, rewrite what changes, check, commit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import Origin, removes_of
from airflow_delta.core.clock import Clock
from airflow_delta.core.committed import SOURCES_KEY
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.predicate import Expression
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import MergeStatement, OperationResult
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.errors import StagedFilesError
from airflow_delta.spark.expectations import check_expectations
from airflow_delta.spark.merge.clauses import BoundClauses, ClauseKind
from airflow_delta.spark.merge.effects import MergeEffects, count_effects
from airflow_delta.spark.merge.match import MOVED, StagedChanges, stage
from airflow_delta.spark.merge.position_scan import FILE
from airflow_delta.spark.merge.position_scan import ROW as MATCHED_ROW
from airflow_delta.spark.merge.source import MergeSource
from airflow_delta.spark.native_write import StagedRows, write_rows
from airflow_delta.spark.outcome import result_of
from airflow_delta.spark.rewrite import FileRewrite, Rewritten
from airflow_delta.spark.row_changes import DROP, OUTPUT, ROW
from airflow_delta.spark.spark_schema import quoted, to_spark
from airflow_delta.spark.staging import StagingArea

_INSERTED_ROWS_PER_TASK = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergePlan:
    """What is the same in every round.

    Attributes:
        source: Computed, with its keys.
        predicate: What holds of every target row that can matter.
        views: What expectations see beside the staged rows.
        origin: Who asks, and what the source was read from.
    """

    statement: MergeStatement
    clauses: BoundClauses
    source: MergeSource
    predicate: Expression
    views: Mapping[str, DataFrame]
    origin: Origin

    def operation(self) -> Operation:
        """As the history shows it."""
        matched = self.clauses.of(ClauseKind.UPDATE, ClauseKind.DELETE)
        parameters = {
            "predicate": [self.statement.on],
            "matchedPredicates": [each.logged() for each in matched],
            "notMatchedPredicates": [each.logged() for each in self.clauses.of(ClauseKind.INSERT)],
            "notMatchedBySourcePredicates": [],
        }
        return Operation(name="MERGE", parameters=parameters)


def run_round(
    spark: SparkSession, log: DeltaLog, snapshot: Snapshot, plan: MergePlan, conflicts: Sequence[Mapping[str, Any]]
) -> OperationResult:
    """Compute the MERGE on this version and commit it. Raises as ``merge``; nothing stays behind then.

    Args:
        spark: The session.
        log: The target's log.
        snapshot: The version.
        plan: What to do.
        conflicts: The winners that made earlier rounds wrong.
    """
    started = time.monotonic()
    transaction = log.start_transaction(snapshot)
    # Before anything is pruned: a row with one of these keys that somebody else adds must not go unseen.
    transaction.record_read(plan.predicate)
    candidates = snapshot.files(plan.predicate).sort_by([("size", "descending")])
    staged = stage(spark, snapshot, plan.source, plan.clauses, candidates)
    effects = count_effects(staged, plan.source)
    transaction.record_read_files(candidates["path"].take(effects.matched_files))
    _check_expectations(spark, plan, staged)
    scanned = time.monotonic()
    uncommitted = OperationResult(
        table=snapshot.table_uri,
        version=snapshot.version,
        read_version=snapshot.version,
        operation="MERGE",
        committed=False,
        metrics=effects.metrics(),
        conflicts=tuple(conflicts),
        attempts=1 + len(conflicts),
        sources=tuple(plan.origin.record.get(SOURCES_KEY, ())),
    )
    if plan.statement.dry_run or effects.is_nothing:
        return uncommitted
    with StagingArea(snapshot.table_uri) as staging:
        rewritten = _rewrite(staged, effects, staging, log.clock)
        written = _write(staged, effects, staging)
        now = time.monotonic()
        adds = pa.concat_tables([rewritten.adds, written.adds])
        removes = removes_of(candidates.take(effects.touched_files), deletion_timestamp=log.clock(), data_change=True)
        metrics = effects.metrics() | {
            "numTargetRowsCopied": rewritten.rows_written - effects.updated_in_place,
            "numOutputRows": rewritten.rows_written + written.rows,
            "numTargetFilesAdded": len(adds),
            "numTargetBytesAdded": sum(adds["size"].to_pylist()),
            "numTargetBytesRemoved": sum(removes["size"].to_pylist()),
            "executionTimeMs": round((now - started) * 1000),
            "scanTimeMs": round((scanned - started) * 1000),
            "rewriteTimeMs": round((now - scanned) * 1000),
        }
        staging.entrust()
        result = transaction.commit(adds=adds, removes=removes, operation=plan.operation(), metrics=metrics, origin=plan.origin)
        if result.already_committed:
            staging.discard()
    return result_of(snapshot.table_uri, result, metrics, conflicts)


def _check_expectations(spark: SparkSession, plan: MergePlan, staged: StagedChanges) -> None:
    """Show the expectations the rows that are inserted, and those that are updated as they become."""
    if not plan.statement.expect:
        return
    schema = staged.snapshot.schema
    if staged.clauses.of(ClauseKind.UPDATE, ClauseKind.INSERT):
        new = staged.rows.where(staged.of(ClauseKind.UPDATE, ClauseKind.INSERT)).select(*map(quoted, schema.names))
    else:
        new = spark.createDataFrame([], to_spark(schema))
    check_expectations(spark, plan.statement.expect, new, plan.views, table=staged.snapshot.table_uri)


def _rewrite(staged: StagedChanges, effects: MergeEffects, staging: StagingArea, clock: Clock) -> Rewritten:
    """Write the touched files anew, without the rows that go and with those that change in their place."""
    if not len(effects.touched_files):
        return Rewritten()
    snapshot = staged.snapshot
    changes = staged.rows.where(staged.of(ClauseKind.UPDATE, ClauseKind.DELETE)).select(
        F.col(FILE).alias(OUTPUT),
        F.col(MATCHED_ROW).alias(ROW),
        (staged.of(ClauseKind.DELETE) | F.col(MOVED)).alias(DROP),
        *map(quoted, staged.clauses.updated.without(snapshot.partition_columns).names),
    )
    rewrite = FileRewrite(
        snapshot=snapshot,
        inputs=staged.candidates,
        outputs=pa.array(range(len(staged.candidates)), pa.int32()),
        directory=staging.name,
        data_change=True,
    )
    rewritten = rewrite.change(changes, clock=clock)
    if (expected := rewritten.rows_read - effects.deleted - effects.moved) != rewritten.rows_written:
        detail = f"{rewritten.rows_written} rows were written, {expected} should have been"
        raise StagedFilesError(table=snapshot.table_uri, detail=detail)
    return rewritten


def _write(staged: StagedChanges, effects: MergeEffects, staging: StagingArea) -> StagedRows:
    """Write the rows that are new in their partition."""
    rows = effects.inserted + effects.moved
    if not rows:
        return StagedRows()
    new = staged.rows.where(staged.of(ClauseKind.INSERT) | F.col(MOVED)).select(*map(quoted, staged.snapshot.schema.names))
    new = new.coalesce(rows // _INSERTED_ROWS_PER_TASK + 1)
    return write_rows(new, staging, staged.snapshot.metadata, folder="inserted")
