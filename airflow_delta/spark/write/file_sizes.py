"""Sizes of the files of a write, where the table sets them.

Spark's writer only counts rows, so the bytes of a row are estimated: from the files that the table has, else from the types. A
type's width in memory is more than what a file takes for it, so that files of a new table rather stay below the bound.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_delta.core.actions import NO_ADDS, Metadata
from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.transaction.table_properties import optimizes_writes, target_file_size
from airflow_delta.spark.io.row_width import stored_row_bytes
from airflow_delta.spark.io.table_files import schema_of

_BALANCED_SIZE = 128 << 20


def size_settings(metadata: Metadata, snapshot: Snapshot | None) -> dict[str, str]:
    """Settings of the session under which Spark keeps files below the size that the table sets.

    Args:
        metadata: The table's, as it will be.
        snapshot: The version that the write stands on; None where there is none.
    """
    settings = {}
    target = target_file_size(metadata.configuration)
    if target is not None:
        files = NO_ADDS if snapshot is None else snapshot.files(columns=["size", NUM_RECORDS.name])
        per_row = stored_row_bytes(files, schema_of(metadata).without(metadata.partition_columns))
        rows = max(1, int(target / per_row))
        settings["spark.sql.files.maxRecordsPerFile"] = str(rows)
    if optimizes_writes(metadata.configuration):
        settings["spark.sql.adaptive.advisoryPartitionSizeInBytes"] = f"{target or _BALANCED_SIZE}b"
    return settings


def balanced(frame: DataFrame, metadata: Metadata) -> DataFrame:
    """The rows, spread over tasks of a good size where the table sets it; those of partitions always are."""
    if metadata.partition_columns or not optimizes_writes(metadata.configuration):
        return frame
    return frame.hint("rebalance")
