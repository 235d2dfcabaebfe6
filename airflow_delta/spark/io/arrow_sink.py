"""Writes rows with Arrow in Python workers, where the JVM has no filesystem for the storage.

A file counts only if the task that wrote it finished and returned its name: names are unique to each attempt, and no directory
is listed.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.clock import system_clock
from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.data_files.compression import codec_for_arrow
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.core.transaction.table_properties import target_file_size
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.arrow_sink_worker import FILE_BYTES, RESULT, RESULT_DDL, ArrowSinkWorker
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.io.file_sink import FileSink
from airflow_delta.spark.io.small_work import done_here
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.io.written_files import WRITTEN_FILE, WrittenFiles
from airflow_delta.spark.schema_conversion import quoted
from airflow_delta.spark.spark_features import observe
from airflow_delta.spark.worker_code import map_in_arrow


def write_in_workers(frame: DataFrame, sink: FileSink, aggregates: Mapping[str, Column], *, here: bool = False) -> WrittenFiles:
    """As ``row_sink.write_files``; the files are those that the workers returned, or this process if it does their work.

    A worker holds one row group at a time: rows come sorted by directory.
    """
    columns, directory = sink.columns, sink.directory
    rows, observed = observe(frame, aggregates)
    names = [directory, *columns.names] if directory else columns.names
    # Spark parses the column names that it passes to mapInArrow, so dots and backticks must be avoided.
    plainly_named = rows.select(*map(quoted, names)).toDF(*map(str, range(len(names))))
    if directory:
        plainly_named = plainly_named.sortWithinPartitions(F.col("0"))
    worker = _worker(sink)
    began = system_clock()
    with typed_worker_errors():
        if here:
            results = done_here(worker, plainly_named.toArrow().to_batches(), RESULT)
        else:
            results = map_in_arrow(plainly_named, worker, RESULT_DDL).toArrow().cast(RESULT)
    return WrittenFiles(files=_named(results, sink, began), observed=observed())


def write_held(rows: pa.Table, sink: FileSink) -> pa.Table:
    """Write rows that this process holds (the sink's columns, as Spark returned them); returns ``WRITTEN_FILE``."""
    began = system_clock()
    results = done_here(_worker(sink), rows.select(sink.columns.names).to_batches(), RESULT)
    return _named(results, sink, began)


def _worker(sink: FileSink) -> ArrowSinkWorker:
    staging, configuration = sink.staging, sink.configuration
    store = staging.store
    return ArrowSinkWorker(
        filesystems=TableFilesystems(hadoop_uri(store.table_uri), store.storage_options),
        table_uri=store.table_uri,
        folder=f"{staging.name}/{sink.folder}",
        directory=sink.directory,
        schema=all_nullable(sink.columns),  # the caller's aggregates check the constraints
        selection=StatisticsSelection.from_properties(configuration),
        codec=codec_for_arrow(configuration),
        file_bytes=target_file_size(configuration) or FILE_BYTES,
    )


def _named(results: pa.Table, sink: FileSink, began: int) -> pa.Table:
    """The results of workers (``RESULT``) as ``WRITTEN_FILE``.

    No file is shown as older than ``began``: from then on vacuums keep it at least for the retention.
    """
    staging = sink.staging
    described = {
        **{name: results[name] for name in results.column_names},
        "path": pa.array([staging.log_path(f"{staging.root}/{path}") for path in results["path"].to_pylist()], pa.string()),
        "modification_time": pa.repeat(pa.scalar(began), len(results)),
    }
    return pa.table([described[name] for name in WRITTEN_FILE.names], schema=WRITTEN_FILE)
