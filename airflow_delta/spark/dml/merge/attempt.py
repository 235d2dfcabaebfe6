"""One attempt of a MERGE: match on one snapshot, rewrite changed files, check expectations, commit."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.committed import SOURCES_KEY
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.record_counts import COUNTED_FILE
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult
from airflow_delta.spark.constraints.identity import identity_tags, with_marks
from airflow_delta.spark.constraints.plain_expression import reads_one_row
from airflow_delta.spark.dml.application import apply_changes, check_new_rows
from airflow_delta.spark.dml.effects import RowEffects, count_effects
from airflow_delta.spark.dml.merge.disjoint import FilesWithKeys, decides_row_by_row
from airflow_delta.spark.dml.merge.join import FROM_SOURCE, join
from airflow_delta.spark.dml.merge.plan import MergePlan
from airflow_delta.spark.dml.merge.source import MergeSource
from airflow_delta.spark.dml.staged_changes import stage
from airflow_delta.spark.io.arrow_scan import estimated_size
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.statement.application_progress import progress
from airflow_delta.spark.statement.conflict_retry import Conflicts
from airflow_delta.spark.statement.outcome import result_of, uncommitted
from airflow_delta.spark.statement.steps import log_candidates
from airflow_delta.spark.statement.target_reads import TargetReads
from airflow_delta.spark.supported_features import ENFORCED


def attempt_merge(
    snapshot: Snapshot,
    plan: MergePlan,
    conflicts: Conflicts,
    *,
    spark: SparkSession,
    log: DeltaLog,
    txn: tuple[str, int] | None,
    cache: RowCache,
) -> OperationResult:
    """Compute the MERGE on this version and commit it. Raises as ``merge``; then no files are left behind.

    Args:
        snapshot: The version.
        plan: The plan.
        conflicts: The commits that ended earlier attempts.
        spark: The session.
        log: The target's log.
        txn: Application id and version of this statement.
        cache: Keeps the staged rows until the next attempt.
    """
    cache.release()
    started = time.monotonic()
    reads = TargetReads(spark=spark, snapshot=snapshot, is_retry=bool(conflicts), predicates=[*plan.reads])
    transaction = log.start_transaction(snapshot, enforces=ENFORCED)
    # Before any file is skipped: a concurrent insert of one of these keys must conflict.
    transaction.record_read(plan.predicate)
    candidates = snapshot.files(plan.predicate, COUNTED_FILE, keys=plan.keys)
    log_candidates(snapshot, candidates)
    pairs, are_unique = join(spark, snapshot, plan.source, plan.clauses, candidates, unmatched=plan.unmatched, cache=cache)
    target_after = snapshot.redefined(plan.after.metadata, plan.after.protocol) if plan.evolves_schema else snapshot
    in_source = F.col(FROM_SOURCE).isNotNull()
    staged = stage(
        pairs,
        target_after,
        plan.clauses,
        candidates,
        cache=cache,
        in_source=in_source,
        reads=None if reads_one_row([plan.source.on, *plan.clauses.texts()]) else reads,
        size=_most_bytes(plan.source, candidates, target_after),
    )
    effects = count_effects(staged, are_matches_unique=are_unique)
    # Then target rows without match matter, too.
    not_matched_by_source = bool(plan.clauses.not_matched_by_source)
    transaction.record_read_files(
        candidates["path"] if not_matched_by_source else candidates["path"].take(effects.matched_files)
    )
    check_new_rows(spark, plan.statement.expect, staged, plan.views, reads)
    reads.record(transaction)
    scanned = time.monotonic()
    counted = _counted(effects, plan.source)
    transactions = progress(transaction, txn, log.clock())
    if plan.statement.dry_run or (effects.is_nothing and not transactions and not plan.evolves_schema):
        sources = tuple(plan.origin.record.get(SOURCES_KEY, ()))
        return replace(uncommitted(snapshot, "MERGE", counted, conflicts), sources=sources)
    if staged.marks or plan.evolves_schema:
        metadata = target_after.metadata
        transaction.set_metadata(with_marks(metadata, staged.marks) if staged.marks else metadata)
    if plan.evolves_schema and plan.after.protocol != snapshot.protocol:
        transaction.set_protocol(plan.after.protocol)
    if effects.is_nothing:
        noted = transaction.commit(transactions=transactions, operation=plan.operation(), metrics=counted, origin=plan.origin)
        return result_of(snapshot.table_uri, noted, counted, conflicts)
    with StagingArea(snapshot.store) as staging:
        applied = apply_changes(staged, effects, staging, log.clock)
        now = time.monotonic()
        metrics = counted | {
            "numTargetRowsCopied": applied.copied,
            "numOutputRows": applied.written,
            "numTargetFilesRemoved": applied.removed_files,
            "numTargetFilesAdded": applied.new_files,
            "numTargetChangeFilesAdded": len(applied.changes),
            "numTargetDeletionVectorsAdded": applied.deletion_vectors_added,
            "numTargetDeletionVectorsRemoved": applied.deletion_vectors_removed,
            "numTargetDeletionVectorsUpdated": applied.deletion_vectors_updated,
            "numTargetBytesAdded": applied.bytes_added,
            "numTargetBytesRemoved": applied.bytes_removed,
            "executionTimeMs": round((now - started) * 1000),
            "scanTimeMs": round((scanned - started) * 1000),
            "rewriteTimeMs": round((now - scanned) * 1000),
        }
        staging.keep()
        result = transaction.commit(
            adds=applied.adds,
            removes=applied.removes,
            changes=applied.changes,
            transactions=transactions,
            operation=plan.operation(),
            metrics=metrics,
            tags=identity_tags(snapshot.metadata, transaction.metadata),
            origin=plan.origin,
            row_wise=not reads and decides_row_by_row(snapshot, plan.clauses),
            confirm_conflicting_files=None if reads else FilesWithKeys.of(spark, snapshot, plan.source, plan.clauses),
        )
        staging.settle(unused=result.already_committed)
    return result_of(snapshot.table_uri, result, metrics, conflicts)


def _most_bytes(source: MergeSource, candidates: pa.Table, target: Snapshot) -> int | None:
    """Approximate bytes in memory of the staged rows; None if a target row may be in any number of pairs."""
    if not source.are_keys_unique or source.size is None:
        return None
    return source.size + estimated_size(candidates, target.schema, target.schema)


def _counted(effects: RowEffects, source: MergeSource) -> dict[str, int]:
    """The counts, with Delta's names of metrics."""
    return {
        "numSourceRows": source.rows,
        "numTargetRowsInserted": effects.inserted,
        "numTargetRowsUpdated": effects.updated,
        "numTargetRowsDeleted": effects.deleted,
        "numTargetRowsMatchedUpdated": effects.updated - effects.updated_not_matched_by_source,
        "numTargetRowsMatchedDeleted": effects.deleted - effects.deleted_not_matched_by_source,
        "numTargetRowsNotMatchedBySourceUpdated": effects.updated_not_matched_by_source,
        "numTargetRowsNotMatchedBySourceDeleted": effects.deleted_not_matched_by_source,
        "numTargetFilesRemoved": len(effects.touched_files),
    }
