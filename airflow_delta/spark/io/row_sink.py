"""Where the rows of a Spark plan become Parquet files: in the JVM or in Python workers, as ``engines`` decides."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame

from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.arrow_sink import write_in_workers
from airflow_delta.spark.io.engines import Engine, engine_for
from airflow_delta.spark.io.jvm_sink import fit_for_jvm, write_in_jvm
from airflow_delta.spark.io.small_work import is_done_here
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.written_files import WrittenFiles


def write_files(
    frame: DataFrame,
    staging: StagingArea,
    folder: str,
    columns: StructType,
    *,
    directory: str | None,
    aggregates: Mapping[str, Column],
    configuration: Mapping[str, str],
    rows_per_file: int | None = None,
    size: int | None = None,
) -> WrittenFiles:
    """Write the columns as files below a folder of the staging area, in one pass over the rows.

    Args:
        frame: The rows; further columns are only for the aggregates.
        staging: Where the folder lies.
        folder: Relative to it.
        columns: What the files hold; under physical names where the columns have them.
        directory: Name of a column; the files lie in one directory ``directory=value`` for each of its values.
        aggregates: By name, taken in the same pass.
        configuration: The table's properties, which choose the columns with statistics.
        rows_per_file: At most so many in one; workers count bytes instead, as the properties say.
        size: Bytes of the rows in memory, about; None where that is not known. Few of them this process writes: ``small_work``.

    Raises:
        SchemaMismatchError: A value that no file of such columns holds.
        UnsupportedStorageError: Neither the JVM nor Arrow reaches the table.
    """
    spark = frame.sparkSession
    if size is not None and is_done_here(spark, columns, size):
        return write_in_workers(
            frame, staging, folder, columns, directory=directory, aggregates=aggregates, configuration=configuration, here=True
        )
    engine = engine_for(spark, [staging.table_uri], staging.store.storage_options)
    fit = fit_for_jvm(frame) if engine is Engine.JVM else None
    if fit is None:
        return write_in_workers(
            frame, staging, folder, columns, directory=directory, aggregates=aggregates, configuration=configuration
        )
    return write_in_jvm(
        fit,
        staging,
        folder,
        columns,
        directory=directory,
        aggregates=aggregates,
        configuration=configuration,
        rows_per_file=rows_per_file,
    )
