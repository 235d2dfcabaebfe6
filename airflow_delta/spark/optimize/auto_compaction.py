"""Auto compaction: small files are compacted right after a commit that left many of them, if the table requests it.

Spark: ``AutoCompact``. Only partitions that the commit changed are considered. A table with clustering columns is left to
    OPTIMIZE, which clusters it.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import DeltaError
from airflow_delta.core.log.managed_commits import Maintenance, is_permitted
from airflow_delta.core.operations.iceberg import ICEBERG_KEY
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.transaction.table_properties import compacts_after_commits
from airflow_delta.spark.optimize.columns import clustered_by

DETAIL = "autoCompaction"
"""Key in a result's details of the outcome."""

_MIN_FILES = 50

_log = logging.getLogger(__name__)


def compacted_after(
    spark: SparkSession, log: DeltaLog, result: OperationResult, origin: Origin, *, min_files: int = _MIN_FILES
) -> OperationResult:
    """The result of a statement, with the outcome of the auto compaction after its commit, if the table requests it.

    The statement has been committed: whatever fails here is only a warning.

    Args:
        spark: The session.
        log: The table's log.
        result: The result of the statement.
        origin: The task run that executes the statement; its token is not used for this commit.
        min_files: A partition with fewer small files is skipped.
    """
    if not result.committed or result.already_committed:
        return result
    try:
        done = _compacted(spark, log, result.version, origin, min_files)
    except Exception as error:  # noqa: BLE001 - the statement is committed, and must not be taken for one that failed
        cause = error if isinstance(error, DeltaError) else type(error).__name__  # other texts may contain keys
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
    """None if the table does not request it, its catalog does not permit it, or there is too little to do."""
    snapshot = log.refresh()
    if not compacts_after_commits(snapshot.metadata.configuration) or clustered_by(snapshot):
        return None
    if not is_permitted(log.store, Maintenance.DATA_LAYOUT):
        return None
    from airflow_delta.spark.optimize.crowded_partitions import compact_crowded  # imported late, as few tables request it

    return compact_crowded(spark, log, snapshot, version, origin=replace(origin, token=None), min_files=min_files)
