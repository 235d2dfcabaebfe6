"""Partitions in which a commit has left many small files, compacted. Spark: ``AutoCompact``."""

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
    """Compact those partitions of the snapshot that a commit added files to; None where there is too little to do.

    Args:
        spark: The session.
        log: The table's log.
        snapshot: Its latest version.
        version: Of the commit.
        origin: Task and DAG run of the statement.
        min_files: A partition that has fewer small files is left alone.

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
    """Those of the files that lie in partitions of the added ones which have enough small files.

    A partition without them is left alone, also where deletion vectors hide many rows: what a DELETE did not rewrite, the
    compaction after it must not rewrite either.
    """
    both = pa.concat_tables([files.select(["partition_values"]), adds.select(["partition_values"])])
    codes = partition_codes(both, partition_fields(snapshot))
    own, touched = codes[: len(files)], codes[len(files) :]
    counts = own.filter(pc.less(files["size"], _SMALL_FILE)).value_counts()
    crowded = counts.field("values").filter(pc.greater_equal(counts.field("counts"), min_files))
    return files.filter(pc.and_(pc.is_in(own, touched), pc.is_in(own, crowded)))
