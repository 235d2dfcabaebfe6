"""The results of ``DeltaTable`` methods: DataFrames with delta-spark's columns."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.log.history import HistoryEntry
from airflow_delta.core.operations.clone import CloneResult
from airflow_delta.core.operations.restore import RestoreResult
from airflow_delta.core.operations.vacuum import VacuumResult
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult
from airflow_delta.core.table_changes.clustering import clustering_columns
from airflow_delta.core.table_changes.column_path import path_text
from airflow_delta.core.table_features.feature import writer_features
from airflow_delta.spark.io.data_paths import hadoop_uri

_HISTORY = """version BIGINT, timestamp TIMESTAMP, userId STRING, userName STRING, operation STRING,
operationParameters MAP<STRING, STRING>,
job STRUCT<jobId: STRING, jobName: STRING, jobRunId: STRING, runId: STRING, jobOwnerId: STRING, triggerType: STRING>,
notebook STRUCT<notebookId: STRING>, clusterId STRING, readVersion BIGINT, isolationLevel STRING, isBlindAppend BOOLEAN,
operationMetrics MAP<STRING, STRING>, userMetadata STRING, engineInfo STRING"""
_JOB = ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")

_DETAIL = """format STRING, id STRING, name STRING, description STRING, location STRING, createdAt TIMESTAMP,
lastModified TIMESTAMP, partitionColumns ARRAY<STRING>, clusteringColumns ARRAY<STRING>, numFiles BIGINT, sizeInBytes BIGINT,
properties MAP<STRING, STRING>, minReaderVersion INT, minWriterVersion INT, tableFeatures ARRAY<STRING>,
statistics MAP<STRING, BIGINT>, clusterByAuto BOOLEAN"""

_SIZES = "STRUCT<min: BIGINT, max: BIGINT, avg: DOUBLE, totalFiles: BIGINT, totalSize: BIGINT>"
_OPTIMIZE = f"""path STRING,
metrics STRUCT<numFilesAdded: BIGINT, numFilesRemoved: BIGINT, filesAdded: {_SIZES}, filesRemoved: {_SIZES}>"""

_MERGE = "num_affected_rows BIGINT, num_updated_rows BIGINT, num_deleted_rows BIGINT, num_inserted_rows BIGINT"

_RESTORE = """table_size_after_restore BIGINT, num_of_files_after_restore BIGINT, num_removed_files BIGINT,
num_restored_files BIGINT, removed_files_size BIGINT, restored_files_size BIGINT"""

_CLONE = """source_table_size BIGINT, source_num_of_files BIGINT, num_removed_files BIGINT, num_copied_files BIGINT,
removed_files_size BIGINT, copied_files_size BIGINT"""

_SHOWN_FILES = 1_000
"""Most files that a dry run of VACUUM lists, as in delta-spark."""


def history_rows(spark: SparkSession, entries: Sequence[HistoryEntry]) -> DataFrame:
    """One row for each commit; a commit without ``commitInfo`` only has version and timestamp."""
    return spark.createDataFrame([_commit(entry) for entry in entries], _HISTORY)


def _commit(entry: HistoryEntry) -> tuple[Any, ...]:
    info = entry.commit_info
    fields = info.fields if info else {}
    job, notebook = fields.get("job"), fields.get("notebook")
    return (
        entry.version,
        _time(entry.timestamp),
        _text(fields.get("userId")),
        _text(fields.get("userName")),
        info.operation if info else None,
        _texts(info.operation_parameters) if info else None,
        tuple(_text(job.get(name)) for name in _JOB) if isinstance(job, dict) else None,
        (_text(notebook.get("notebookId")),) if isinstance(notebook, dict) else None,
        _text(fields.get("clusterId")),
        info.read_version if info else None,
        info.isolation_level if info else None,
        info.is_blind_append if info else None,
        _texts(info.operation_metrics) if info and info.operation_metrics else None,
        info.origin.user_metadata if info else None,
        info.engine_info if info else None,
    )


def detail_row(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """The details of the table, in one row."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    files = snapshot.files(columns=["size", "deletion_vector"])
    descriptors = files["deletion_vector"].drop_null()
    row = (
        "delta",
        metadata.id,
        metadata.name,
        metadata.description,
        hadoop_uri(snapshot.table_uri),
        None if metadata.created_time is None else _time(metadata.created_time),
        _time(snapshot.timestamp),
        list(metadata.partition_columns),
        [path_text(path) for path in clustering_columns(snapshot.table_uri, snapshot.schema, snapshot.domains)],
        len(files),
        pc.sum(files["size"]).as_py() or 0,
        dict(metadata.configuration),
        protocol.min_reader_version,
        protocol.min_writer_version,
        sorted(writer_features(protocol)),
        {
            "numDeletionVectors": len(descriptors),
            "numRowsDeletedByDeletionVectors": pc.sum(pc.struct_field(descriptors, "cardinality")).as_py() or 0,
        },
        False,
    )
    return spark.createDataFrame([row], _DETAIL)


def merge_row(spark: SparkSession, result: OperationResult) -> DataFrame:
    """The numbers of rows that a MERGE changed."""
    updated, deleted, inserted = (
        int(result.metrics.get(f"numTargetRows{kind}", 0)) for kind in ("Updated", "Deleted", "Inserted")
    )
    return spark.createDataFrame([(updated + deleted + inserted, updated, deleted, inserted)], _MERGE)


def affected_row(spark: SparkSession, result: OperationResult, counter: str) -> DataFrame:
    """The number of rows that a DELETE or UPDATE changed, from the metric of this name."""
    return spark.createDataFrame([(int(result.metrics.get(counter, 0)),)], "num_affected_rows BIGINT")


def optimize_row(spark: SparkSession, result: OperationResult) -> DataFrame:
    """The files that an OPTIMIZE added and removed: those of delta-spark's metrics that are available here."""
    number = {name: int(value) for name, value in result.metrics.items() if str(value).lstrip("-").isdecimal()}
    added, removed = number.get("numAddedFiles", 0), number.get("numRemovedFiles", 0)
    added_bytes, removed_bytes = number.get("numAddedBytes", 0), number.get("numRemovedBytes", 0)
    sizes_added = (number.get("minFileSize"), number.get("maxFileSize"), _mean(added_bytes, added), added, added_bytes)
    sizes_removed = (None, None, _mean(removed_bytes, removed), removed, removed_bytes)
    return spark.createDataFrame([(hadoop_uri(result.table), (added, removed, sizes_added, sizes_removed))], _OPTIMIZE)


def restore_row(spark: SparkSession, result: RestoreResult) -> DataFrame:
    """The outcome of a restore, in files and bytes."""
    row = (
        result.table_size_after_restore,
        result.num_of_files_after_restore,
        result.num_removed_files,
        result.num_restored_files,
        result.removed_files_size,
        result.restored_files_size,
    )
    return spark.createDataFrame([row], _RESTORE)


def clone_row(spark: SparkSession, result: CloneResult) -> DataFrame:
    """The size of the cloned table, and of the files copied and removed."""
    return spark.createDataFrame([tuple(result.metrics().values())], _CLONE)


def vacuum_rows(spark: SparkSession, table: str, result: VacuumResult) -> DataFrame:
    """The vacuumed table; for a dry run, the first files that would be deleted."""
    root = hadoop_uri(table)
    found = [f"{root}/{path}" for path in result.paths.slice(0, _SHOWN_FILES).to_pylist()] if result.dry_run else [root]
    return named_rows(spark, "path", found)


def named_rows(spark: SparkSession, column: str, values: Sequence[str]) -> DataFrame:
    """One row for each value, in a single string column."""
    return spark.createDataFrame([(value,) for value in values], f"{column} STRING")


def property_rows(spark: SparkSession, properties: Mapping[str, str]) -> DataFrame:
    """One row for each table property."""
    return spark.createDataFrame(list(properties.items()), "key STRING, value STRING")


def _mean(total: int, number: int) -> float:
    return total / number if number else 0.0


def _time(milliseconds: int) -> dt.datetime:
    """With a time zone, so that those of the process and the session have no effect."""
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=milliseconds)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: _text(value) for name, value in values.items()}
