"""Limits the file sizes of a write, if the table sets a size.

Spark's writer can only limit rows, so the bytes of a row are estimated: from the table's existing files, else from the types.
As values take more bytes in memory than in a file, files of a new table tend to stay below the size, unless strings, lists or
maps are longer than assumed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_delta.core.actions import NO_ADDS, Metadata
from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.transaction.table_properties import optimizes_writes, target_file_size
from airflow_delta.spark.io.row_width import row_width, stored_row_bytes
from airflow_delta.spark.io.table_files import schema_of
from airflow_delta.spark.jvm import in_session, is_movable
from airflow_delta.spark.session import session_with

_BALANCED_SIZE = 128 << 20
_TASK_SIZE = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


def rows_per_file(metadata: Metadata, snapshot: Snapshot | None) -> int | None:
    """Approximate number of rows that keep a file below the size that the table sets; None if it sets none.

    Args:
        metadata: The table's metadata after the write.
        snapshot: The version that the write is based on; None if there is no table.
    """
    target = target_file_size(metadata.configuration)
    if target is None:
        return None
    files = NO_ADDS if snapshot is None else snapshot.files(columns=["size", NUM_RECORDS.name])
    per_row = stored_row_bytes(files) or row_width(schema_of(metadata).without(metadata.partition_columns))
    return max(1, int(target / per_row))


def balanced(frame: DataFrame, metadata: Metadata) -> DataFrame:
    """The rows, redistributed over tasks of a suitable size if the table sets it; rows for partitions always are.

    Rows that must stay in their session (see ``is_movable``) are distributed by that session's own settings.
    """
    if not optimizes_writes(metadata.configuration):
        return frame
    spark, size = frame.sparkSession, target_file_size(metadata.configuration) or _BALANCED_SIZE
    rows = in_session(frame, session_with(spark, {_TASK_SIZE: f"{size}b"})) if is_movable(frame) else frame
    return rows if metadata.partition_columns else rows.hint("rebalance")
