"""Rows written by Python workers with Arrow, where the JVM knows no filesystem.

A file counts only when the task that wrote it came to its end and named it: names are new in each attempt, and nobody lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.clock import system_clock
from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.data_files.compression import codec_for_arrow
from airflow_delta.core.schema import ArrayType, DataType, MapType, StructType
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.core.transaction.table_properties import target_file_size
from airflow_delta.spark.arrow_sink_worker import FILE_BYTES, RESULT, RESULT_DDL, ArrowSinkWorker
from airflow_delta.spark.data_paths import hadoop_uri
from airflow_delta.spark.spark_schema import quoted
from airflow_delta.spark.staging import StagingArea
from airflow_delta.spark.sunk_rows import SUNK_FILE, SunkRows
from airflow_delta.spark.worker_values import typed_worker_errors

_Type = TypeVar("_Type", bound=DataType)


def write_in_workers(
    frame: DataFrame,
    staging: StagingArea,
    folder: str,
    columns: StructType,
    *,
    directory: str | None,
    aggregates: Mapping[str, Column],
    configuration: Mapping[str, str],
) -> SunkRows:
    """As ``row_sink.write_files``; the files are those that the workers named.

    A worker holds one row group at a time: rows come sorted by directory.
    """
    observation = Observation()
    rows = frame.observe(observation, *(aggregate.alias(name) for name, aggregate in aggregates.items()))
    names = [directory, *columns.names] if directory else columns.names
    # Spark parses the names of what it maps: dots and backticks would be syntax.
    plainly_named = rows.select(*map(quoted, names)).toDF(*map(str, range(len(names))))
    if directory:
        plainly_named = plainly_named.sortWithinPartitions(F.col("0"))
    store = staging.store
    worker = ArrowSinkWorker(
        filesystems=TableFilesystems(hadoop_uri(store.table_uri), store.storage_options),
        table_uri=store.table_uri,
        folder=f"{staging.name}/{folder}",
        directory=directory,
        schema=_nullable(columns),
        selection=StatisticsSelection.from_properties(configuration),
        codec=codec_for_arrow(configuration),
        file_bytes=target_file_size(configuration) or FILE_BYTES,
    )
    with typed_worker_errors():
        results = plainly_named.mapInArrow(worker, RESULT_DDL).toArrow().cast(RESULT)
    described = {
        **{name: results[name] for name in results.column_names},
        "path": pa.array([staging.log_path(f"{staging.root}/{each}") for each in results["path"].to_pylist()], pa.string()),
        "modification_time": pa.repeat(pa.scalar(system_clock()), len(results)),
    }
    files = pa.table([described[name] for name in SUNK_FILE.names], schema=SUNK_FILE)
    return SunkRows(files=files, observed=observation.get)


def _nullable(data_type: _Type) -> _Type:
    """The type with no promise in it: those are for the caller's aggregates to judge, over all rows, as in the other sink."""
    match data_type:
        case StructType(fields):
            return replace(data_type, fields=tuple(replace(each, type=_nullable(each.type), nullable=True) for each in fields))
        case ArrayType(element):
            return replace(data_type, element_type=_nullable(element), contains_null=True)
        case MapType(key, value):
            return replace(data_type, key_type=_nullable(key), value_type=_nullable(value), value_contains_null=True)
        case _:
            return data_type
