"""Which concurrent changes do not conflict with a MERGE: ``FilesWithKeys`` and ``decides_row_by_row``."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

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
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.shared_bytes import share
from airflow_delta.spark.io.worker_values import to_ipc, typed_worker_errors

_MAX_BYTES = 16 << 30
"""Most bytes of files whose keys are read; beyond that, the statement is retried instead."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilesWithKeys(ConfirmConflictingFiles):
    """Confirms which added files contain a row with a key of the source; workers read their key columns.

    Statistics of hashes and UUIDs always overlap. A row without a key of the source matches nothing, whatever else the
    condition says, so a file without such rows does not affect the MERGE.

    Attributes:
        spark: The session.
        snapshot: The target, as it was read.
        keys: Keys of the source, with columns named as the target's.
    """

    spark: SparkSession
    snapshot: Snapshot
    keys: pa.Table

    @classmethod
    def of(cls, spark: SparkSession, snapshot: Snapshot, source: MergeSource, clauses: BoundClauses) -> FilesWithKeys | None:
        """None if the source's keys are not available, or if target rows without match matter."""
        if source.keys is None or clauses.not_matched_by_source:
            return None
        return cls(spark=spark, snapshot=snapshot, keys=source.keys)

    def __call__(self, files: pa.Table, /) -> pa.Table:
        """See ``ConfirmConflictingFiles``."""
        if (pc.sum(files["size"]).as_py() or 0) > _MAX_BYTES:
            return files
        columns = StructType(tuple(field for field in self.snapshot.schema.fields if field.name in self.keys.column_names))
        try:
            with typed_worker_errors(), RowCache(None) as cache:
                keys = share(self.spark, to_ipc(self.keys), cache.at_end)
                rows = scan_positions(self.spark, self.snapshot, files, columns, keys=keys)
                found = rows.select(FILE).distinct().toArrow()
        except DeltaError:  # for example, a file that has been deleted again
            failure = printable_lines(traceback.format_exc())
            _log.warning(
                "could not read the files of a concurrent commit; it counts as a conflict with this MERGE:\n%s", failure
            )
            return files
        return files.take(found[FILE])


def decides_row_by_row(snapshot: Snapshot, clauses: BoundClauses) -> bool:
    """Whether the MERGE tolerates that other commits delete other rows of the files from which it deletes rows.

    So it does if it changes every row that it matches: then rows deleted by others were not matched. If it inserts no rows,
    even a matched but unchanged row may be deleted.
    """
    if not uses_deletion_vectors(snapshot) or clauses.not_matched_by_source:
        return False
    changes_all = any(clause.condition is None for clause in clauses.about_matches)
    return changes_all or not clauses.of(ClauseKind.INSERT)
