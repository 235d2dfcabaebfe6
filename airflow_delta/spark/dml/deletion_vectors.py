"""Rows that go by a deletion vector: their file stays, and nothing of it is written anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from airflow_delta.core.actions import ADD_FILE, NO_ADDS
from airflow_delta.core.actions.file_actions import DELETION_VECTOR
from airflow_delta.core.data_files.wide_bounds import with_wide_bounds
from airflow_delta.core.log.record_counts import record_counts
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.feature import DELETION_VECTORS, reader_features
from airflow_delta.spark.dml.clauses import ClauseKind
from airflow_delta.spark.dml.position_scan import FILE, ROW
from airflow_delta.spark.io.file_tasks import spread_by_file
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import to_ipc, typed_worker_errors
from airflow_delta.spark.rewrite.deletion_vector_worker import VECTORS, VECTORS_DDL, VectorWorker

if TYPE_CHECKING:  # which rows are staged depends on whether the table hides them
    from airflow_delta.spark.dml.effects import RowEffects
    from airflow_delta.spark.dml.staged_changes import StagedChanges

_ENABLED = "delta.enableDeletionVectors"


def uses_deletion_vectors(snapshot: Snapshot) -> bool:
    """Whether the table asks for deletion vectors rather than for files written anew."""
    is_asked = snapshot.metadata.configuration.get(_ENABLED, "").lower() == "true"
    return is_asked and DELETION_VECTORS in reader_features(snapshot.protocol)


def write_deletion_vectors(staged: StagedChanges, effects: RowEffects, staging: StagingArea) -> pa.Table:
    """Write a vector for each touched file, with the rows that go and those that were gone.

    Returns:
        The files with their vectors, ``ADD_FILE``; one of which no row is left is not among them.
    """
    if not len(effects.touched_files):
        return NO_ADDS
    going = staged.rows.where(staged.of(ClauseKind.UPDATE, ClauseKind.DELETE)).select(FILE, ROW)
    touched = staged.candidates.take(effects.touched_files)
    only_positions = 1 / len(staged.snapshot.schema.fields)
    spread = spread_by_file(going, FILE, effects.touched_files, touched, share=only_positions)
    ordered = spread.sortWithinPartitions(FILE, ROW)
    return marked_files(staged.candidates, write_vectors(staged.snapshot, staged.candidates, ordered, staging))


def write_vectors(snapshot: Snapshot, files: pa.Table, going: DataFrame, staging: StagingArea) -> pa.Table:
    """Write a vector for each file that loses a row: ``VECTORS``, in the order of the files.

    Args:
        snapshot: The table.
        files: ``ADD_FILE``; ``FILE`` is their ordinal.
        going: ``FILE`` and ``ROW`` of the rows that go, in this order; all of a file in one partition.
        staging: Where the vectors go.
    """
    counts = pa.chunked_array([record_counts(each) for each in files["stats"].chunks], pa.int64())
    worker = VectorWorker(
        table=TableFiles.of(snapshot),
        directory=staging.name,
        files=to_ipc(files.select(["path", "deletion_vector"]).append_column("num_records", counts)),
    )
    with typed_worker_errors():
        return going.mapInArrow(worker, VECTORS_DDL).toArrow().cast(VECTORS).sort_by("file")


def marked_files(files: pa.Table, vectors: pa.Table) -> pa.Table:
    """The files (``ADD_FILE``) with their new vectors; one of which no row is left is not among them."""
    left = vectors.filter(pc.less(vectors["cardinality"], vectors["num_records"])).combine_chunks()
    return _with_vectors(files.take(left["file"]), left)


def _with_vectors(files: pa.Table, vectors: pa.Table) -> pa.Table:
    members = [vectors[each.name].combine_chunks() for each in DELETION_VECTOR]
    stats = map(with_wide_bounds, files["stats"].to_pylist(), vectors["num_records"].to_pylist())
    columns = {
        "deletion_vector": pa.StructArray.from_arrays(members, fields=list(DELETION_VECTOR)),
        "stats": pa.array(stats, pa.string()),
        "data_change": pa.repeat(pa.scalar(value=True), len(files)),
    }
    return pa.table([columns.get(each.name, files[each.name]) for each in ADD_FILE], schema=ADD_FILE)
