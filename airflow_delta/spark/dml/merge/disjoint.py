"""Merges of different rows that meet: what of a faster writer's commit a MERGE may pass."""

from __future__ import annotations

import logging
import traceback

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.foreign_values import printable_lines
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.transaction.commit_attempt import ConfirmConflictingFiles
from airflow_delta.spark.dml.clauses import BoundClauses, ClauseKind
from airflow_delta.spark.dml.deletion_vectors import uses_deletion_vectors
from airflow_delta.spark.dml.merge.source import MergeSource
from airflow_delta.spark.dml.position_scan import FILE
from airflow_delta.spark.dml.staged_changes import scan_positions
from airflow_delta.spark.io.worker_values import typed_worker_errors

_MAX_BYTES = 16 << 30
"""Of larger files than these together the keys are not read: the statement is done again instead."""

_log = logging.getLogger(__name__)


def confirm_by_keys(
    spark: SparkSession, snapshot: Snapshot, source: MergeSource, clauses: BoundClauses
) -> ConfirmConflictingFiles | None:
    """Tells which files that a faster writer added hold a row with a key of the source, by reading their key columns.

    Statistics of hashes and UUIDs always overlap. A row that has no key of the source matches nothing, whatever else the
    condition says, so a file without such a row changes nothing. None where the source's keys are not at hand, and where rows
    without match matter.

    Args:
        spark: The session; workers read the files.
        snapshot: The target, as it was read.
        source: The source, computed.
        clauses: The statement's, bound to the target.
    """
    keys = source.keys
    if keys is None or clauses.by_source:
        return None
    columns = StructType(tuple(each for each in snapshot.schema.fields if each.name in keys.column_names))

    def with_a_key(added: pa.Table) -> pa.Table:
        if (pc.sum(added["size"]).as_py() or 0) > _MAX_BYTES:
            return added
        try:
            with typed_worker_errors():
                found = scan_positions(spark, snapshot, added, columns, keys=keys).select(FILE).distinct().toArrow()
        except DeltaError:  # such as a file that is gone again
            failure = printable_lines(traceback.format_exc())
            _log.warning("cannot tell whether a faster commit added rows of this MERGE:\n%s", failure)
            return added
        return added.take(found[FILE])

    return with_a_key


def decides_row_by_row(snapshot: Snapshot, clauses: BoundClauses) -> bool:
    """Whether another commit may hide rows of the files in which the MERGE hides rows too, as long as they are others.

    It may when the statement changes every row that it matches: then what the other commit hid was not matched. Where nothing
    is inserted for want of a match, a matched row that stays as it is may go as well.
    """
    if not uses_deletion_vectors(snapshot) or clauses.by_source:
        return False
    changes_all = any(each.condition is None for each in clauses.about_matches)
    return changes_all or not clauses.of(ClauseKind.INSERT)
