"""Sizes of the files of a write, where the table sets them.

Spark's writer only counts rows, so the bytes of a row are estimated: from the files that the table has, else from the types. A
type's width in memory is more than what a file takes for it, so that files of a new table rather stay below the bound.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from airflow_delta.core.actions import Metadata
from airflow_delta.core.log.record_counts import record_counts
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.transaction.table_properties import optimizes_writes, target_file_size
from airflow_delta.spark.io.row_width import row_width
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
        rows = max(1, int(target / _bytes_per_row(metadata, snapshot)))
        settings["spark.sql.files.maxRecordsPerFile"] = str(rows)
    if optimizes_writes(metadata.configuration):
        settings["spark.sql.adaptive.advisoryPartitionSizeInBytes"] = f"{target or _BALANCED_SIZE}b"
    return settings


def balanced(frame: DataFrame, metadata: Metadata) -> DataFrame:
    """The rows, spread over tasks of a good size where the table sets it; those of partitions always are."""
    if metadata.partition_columns or not optimizes_writes(metadata.configuration):
        return frame
    return frame.hint("rebalance")


def _bytes_per_row(metadata: Metadata, snapshot: Snapshot | None) -> float:
    if snapshot is not None:
        files = snapshot.files(None, ["size", "stats"])
        rows = pc.sum(pa.chunked_array([record_counts(chunk) for chunk in files["stats"].chunks], pa.int64())).as_py()
        if rows:
            return float(max(1.0, pc.sum(files["size"]).as_py() / rows))
    return float(row_width(schema_of(metadata).without(metadata.partition_columns)))
