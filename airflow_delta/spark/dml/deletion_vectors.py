"""Deletes rows by deletion vectors, without rewriting their files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.actions.file_actions import DELETION_VECTOR
from airflow_delta.core.data_files.wide_bounds import with_wide_bounds
from airflow_delta.core.log.record_counts import NUM_RECORDS, with_record_counts
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.feature import DELETION_VECTORS, reader_features
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.shared_bytes import share_files
from airflow_delta.spark.io.small_work import done_here, is_done_here
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.rewrite.deletion_vector_worker import RESULT, RESULT_DDL, DeletionVectorWorker
from airflow_delta.spark.worker_code import map_in_arrow

_NO_COLUMNS = StructType(())
_POSITION_BYTES = 12
_ENABLED = "delta.enableDeletionVectors"


def uses_deletion_vectors(snapshot: Snapshot) -> bool:
    """Whether rows of the table are deleted by deletion vectors rather than by rewriting files."""
    is_enabled = snapshot.metadata.configuration.get(_ENABLED, "").lower() == "true"
    return is_enabled and DELETION_VECTORS in reader_features(snapshot.protocol)


def write_deletion_vectors(
    snapshot: Snapshot, files: pa.Table, numbers: pa.Array, deleted: DataFrame, staging: StagingArea
) -> pa.Table:
    """Write a deletion vector for each file that loses rows: ``RESULT``, in the order of the files.

    Args:
        snapshot: The table.
        files: ``ADD_FILE``; the files that may lose rows.
        numbers: Their values of ``FILE``, ascending: int32.
        deleted: ``FILE`` and ``ROW`` of the rows to delete, sorted by them; all rows of a file in one partition.
        staging: Where the deletion vectors are written.
    """
    counted = with_record_counts(files, ["path", "deletion_vector", NUM_RECORDS.name])
    spark, rows = deleted.sparkSession, counted[NUM_RECORDS.name]
    with RowCache(None) as cache:
        worker = DeletionVectorWorker(
            table=TableFiles.of(snapshot),
            directory=staging.name,
            files=share_files(spark, counted.append_column("file", numbers), "file", cache.at_end),
        )
        size = None if rows.null_count else _POSITION_BYTES * (pc.sum(rows).as_py() or 0)
        if size is not None and is_done_here(spark, _NO_COLUMNS, size, files=len(files)):
            return done_here(worker, deleted.toArrow().to_batches(), RESULT).sort_by("file")
        with typed_worker_errors():
            return map_in_arrow(deleted, worker, RESULT_DDL).toArrow().cast(RESULT).sort_by("file")


def marked_files(files: pa.Table, numbers: pa.Array, deletion_vectors: pa.Table) -> pa.Table:
    """The files (``ADD_FILE``) with their new deletion vectors (``RESULT``); without files that have no rows left.

    Args:
        files: The files as they were.
        numbers: Their values of ``FILE`` in ``RESULT``: int32.
        deletion_vectors: The new deletion vectors.
    """
    left = deletion_vectors.filter(pc.less(deletion_vectors["cardinality"], deletion_vectors["num_records"])).combine_chunks()
    marked = files.take(pc.index_in(left["file"], numbers))
    members = [left[member.name].combine_chunks() for member in DELETION_VECTOR]
    stats = map(with_wide_bounds, marked["stats"].to_pylist(), left["num_records"].to_pylist())
    columns = {
        "deletion_vector": pa.StructArray.from_arrays(members, fields=list(DELETION_VECTOR)),
        "stats": pa.array(stats, pa.string()),
        "data_change": pa.repeat(pa.scalar(value=True), len(marked)),
    }
    return pa.table([columns.get(column.name, marked[column.name]) for column in ADD_FILE], schema=ADD_FILE)
