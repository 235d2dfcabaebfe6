"""Writes the rows of a Spark plan as Parquet files, in the JVM or in Python workers, as ``engines`` decides."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame

from airflow_delta.core.schema import all_fields
from airflow_delta.core.schema.column_mapping import nested_ids
from airflow_delta.core.schema.void_columns import holds_void
from airflow_delta.spark.io.arrow_sink import write_in_workers
from airflow_delta.spark.io.engines import Engine, engine_for
from airflow_delta.spark.io.file_sink import FileSink
from airflow_delta.spark.io.jvm_sink import fit_for_jvm, variant_settings, write_in_jvm
from airflow_delta.spark.io.small_work import is_done_here
from airflow_delta.spark.io.written_files import WrittenFiles


def write_files(
    frame: DataFrame,
    sink: FileSink,
    aggregates: Mapping[str, Column],
    *,
    rows_per_file: int | None = None,
    size: int | None = None,
) -> WrittenFiles:
    """Write the rows as files, in one pass over them.

    Args:
        frame: The rows; columns that are not in the files are only for the aggregates.
        sink: Where they are written.
        aggregates: Aggregates by name, taken in the same pass.
        rows_per_file: Most rows in a file; workers limit bytes instead, as the table's properties say.
        size: Approximate bytes of the rows in memory; None if unknown. This process writes few rows itself: ``small_work``.

    Raises:
        SchemaMismatchError: A value does not fit the columns of the files.
        UnsupportedStorageError: Neither the JVM nor Arrow can access the table.
    """
    spark, staging = frame.sparkSession, sink.staging
    if size is not None and is_done_here(spark, sink.columns, size):
        return write_in_workers(frame, sink, aggregates, here=True)
    engine = engine_for(spark, [staging.table_uri], staging.store.storage_options)
    # Spark's writer rejects void columns, which files omit, and writes no ids for elements of lists and maps.
    if holds_void(sink.columns) or any(map(nested_ids, all_fields(sink.columns))):
        engine = Engine.ARROW
    variants = variant_settings(sink.columns, sink.configuration)
    fit = fit_for_jvm(frame, variants=variants) if engine is Engine.JVM else None
    if fit is None:
        return write_in_workers(frame, sink, aggregates)
    return write_in_jvm(fit, sink, aggregates, rows_per_file=rows_per_file)
