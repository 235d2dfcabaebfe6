"""Where the rows of a Spark plan become Parquet files.

Two sinks share the work, and one rule chooses. Spark's own writer takes what lies where the JVM can reach it by itself: no row
leaves the JVM. Python workers write with Arrow what the JVM has no class for (S3 without hadoop-aws), and what it has no
credentials for: those of a table's storage options are Arrow's alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession

from airflow_delta.core.schema import StructType
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.spark.io.arrow_sink import write_in_workers
from airflow_delta.spark.io.jvm_sink import write_in_jvm
from airflow_delta.spark.io.known_filesystems import hadoop_knows
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.written_files import WrittenFiles

_JVM_SCHEMES = ("file", "hdfs", "viewfs")


def write_files(
    frame: DataFrame,
    staging: StagingArea,
    folder: str,
    columns: StructType,
    *,
    directory: str | None,
    aggregates: Mapping[str, Column],
    configuration: Mapping[str, str],
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

    Raises:
        SchemaMismatchError: A value that no file of such columns holds.
        UnsupportedStorageError: Neither the JVM nor Arrow reaches the table.
    """
    write = write_in_jvm if suits_jvm_sink(frame.sparkSession, staging.store) else write_in_workers
    return write(frame, staging, folder, columns, directory=directory, aggregates=aggregates, configuration=configuration)


def suits_jvm_sink(spark: SparkSession, store: LogStore) -> bool:
    """Whether Spark's own writer takes the files of this table."""
    if scheme_of(store.table_uri) in _JVM_SCHEMES:
        return True
    return not store.storage_options and hadoop_knows(spark, store.table_uri)
