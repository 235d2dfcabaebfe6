"""Compacts partitions in which a commit has left many small files. Spark: ``AutoCompact``."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, OptimizeStatement
from airflow_delta.spark.optimize.bins import compaction_bins
from airflow_delta.spark.optimize.candidates import candidates, partition_codes, partition_fields
from airflow_delta.spark.optimize.optimize import run_plan
from airflow_delta.spark.optimize.plan import OptimizePlan

_FILE_SIZE = 128 << 20
_SMALL_FILE = 64 << 20


def compact_crowded(
    spark: SparkSession, log: DeltaLog, snapshot: Snapshot, version: int, *, origin: Origin, min_files: int
) -> OperationResult | None:
    """Compact the partitions of the snapshot to which a commit added files; None if there is too little to do.

    Args:
        spark: The session.
        log: The table's log.
        snapshot: The table's latest version.
        version: Version of the commit.
        origin: The task run that executes the statement.
        min_files: A partition with fewer small files is skipped.

    Raises:
        As OPTIMIZE.
    """
    statement = OptimizeStatement(
        table=snapshot.table_uri, target_file_size=_FILE_SIZE, small_file_size=_SMALL_FILE, min_files=min_files
    )
    small = _crowded(snapshot, candidates(snapshot, statement, None), read_commit(log.store, version).adds, min_files)
    inputs, groups = compaction_bins(small, partition_fields(snapshot), _FILE_SIZE)
    plan = OptimizePlan(inputs=inputs, groups=groups, columns=(), is_clustered=False, file_size=_FILE_SIZE)
    return run_plan(spark, log, snapshot, plan, statement, origin=origin, is_automatic=True)


def _crowded(snapshot: Snapshot, files: pa.Table, adds: pa.Table, min_files: int) -> pa.Table:
    """The files in partitions of the added files that have enough small files.

    A partition without enough is skipped, even if deletion vectors delete many rows there: what a DELETE avoided to rewrite
    should not be rewritten right after it.
    """
    both = pa.concat_tables([files.select(["partition_values"]), adds.select(["partition_values"])])
    codes = partition_codes(both, partition_fields(snapshot))
    own, touched = codes[: len(files)], codes[len(files) :]
    counts = own.filter(pc.less(files["size"], _SMALL_FILE)).value_counts()
    crowded = counts.field("values").filter(pc.greater_equal(counts.field("counts"), min_files))
    return files.filter(pc.and_(pc.is_in(own, touched), pc.is_in(own, crowded)))
