"""Small files compacted right after a commit that left many of them, where the table requests it.

Spark: ``AutoCompact``. Only partitions that the commit touched are considered. A table with clustering columns is left to
OPTIMIZE, which clusters it.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.log.commit_reader import read_commit
from airflow_delta.core.log.managed_commits import Maintenance, is_permitted
from airflow_delta.core.operations.iceberg import ICEBERG_KEY
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, OptimizeStatement
from airflow_delta.core.transaction.table_properties import compacts_after_commits
from airflow_delta.spark.optimize.bins import compaction_bins
from airflow_delta.spark.optimize.candidates import candidates, partition_codes, partition_fields
from airflow_delta.spark.optimize.columns import clustered_by
from airflow_delta.spark.optimize.optimize import run_plan
from airflow_delta.spark.optimize.plan import OptimizePlan

DETAIL = "autoCompaction"
"""Key of a result's details with its outcome."""

_FILE_SIZE = 128 << 20
_SMALL_FILE = 64 << 20
_MIN_FILES = 50

_log = logging.getLogger(__name__)


def compacted_after(
    spark: SparkSession, log: DeltaLog, result: OperationResult, origin: Origin, *, min_files: int = _MIN_FILES
) -> OperationResult:
    """The result of a statement, with what the compaction after its commit did where the table requests one.

    The statement is committed: whatever fails here is only a warning.

    Args:
        spark: The session.
        log: The table's log.
        result: Of the statement.
        origin: Task and DAG run of the statement; its token stays the statement's.
        min_files: A partition that has fewer small files is left alone.
    """
    if not result.committed or result.already_committed:
        return result
    try:
        done = _compacted(spark, log, result.version, origin, min_files)
    except Exception as error:  # noqa: BLE001 - the statement is committed, and must not be taken for one that failed
        cause = error if isinstance(error, DeltaError) else type(error).__name__  # other texts may hold keys
        _log.warning("The compaction after version %s of %s failed: %s", result.version, log.table_uri, cause)
        warning = f"the compaction after version {result.version} failed: {cause}"
        details = {**result.details, DETAIL: {"error": type(error).__name__}}
        return replace(result, details=details, warnings=(*result.warnings, warning))
    if done is None or not done.committed:
        return result
    newer = {key: told for key, told in done.details.items() if key == ICEBERG_KEY}
    details = {**result.details, **newer, DETAIL: {"version": done.version, "metrics": dict(done.metrics)}}
    return replace(result, details=details, warnings=(*result.warnings, *done.warnings))


def _compacted(spark: SparkSession, log: DeltaLog, version: int, origin: Origin, min_files: int) -> OperationResult | None:
    """None where the table requests none, its catalog does not permit it, or there is too little to do."""
    snapshot = log.refresh()
    if not compacts_after_commits(snapshot.metadata.configuration) or clustered_by(snapshot):
        return None
    if not is_permitted(log.store, Maintenance.DATA_LAYOUT):
        return None
    statement = OptimizeStatement(
        table=snapshot.table_uri, target_file_size=_FILE_SIZE, small_file_size=_SMALL_FILE, min_files=min_files
    )
    small = _crowded(snapshot, candidates(snapshot, statement, None), read_commit(log.store, version).adds, min_files)
    inputs, groups = compaction_bins(small, partition_fields(snapshot), _FILE_SIZE)
    plan = OptimizePlan(inputs=inputs, groups=groups, columns=(), is_clustered=False, file_size=_FILE_SIZE)
    return run_plan(spark, log, snapshot, plan, statement, origin=replace(origin, token=None), is_automatic=True)


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
