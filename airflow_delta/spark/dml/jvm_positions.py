"""Finds the positions of rows with Spark's own Parquet reader.

A condition that only Spark can evaluate is evaluated in the JVM. Python workers would have to send every row there through a
pipe, so they only do so if there is little to read, or if only they can read the files: see ``scan``.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.column_mapping import without_column_mapping
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.dml.position_scan import FILE, ROW, ROW_ID
from airflow_delta.spark.io.arrow_scan import estimated_size
from airflow_delta.spark.io.file_tasks import file_task_count, share_of
from airflow_delta.spark.io.jvm_scan import jvm_scan
from airflow_delta.spark.io.scan import files_for_jvm
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.schema_conversion import to_spark
from airflow_delta.spark.spark_features import repartition_by_id

_LEAST_BYTES = 16 << 20
"""Bytes in memory; less is sent through the pipe before Spark has even listed the files."""


def jvm_positions(spark: SparkSession, snapshot: Snapshot, files: pa.Table, columns: StructType) -> DataFrame | None:
    """These columns of the files' rows, with ``FILE`` and ``ROW``, in any order; None if Python workers should read them.

    Args:
        spark: The session.
        snapshot: The table.
        files: ``COUNTED_FILE`` at least; ``FILE`` is the index of a file.
        columns: The columns to read.

    Raises:
        CorruptDataFileError: A file is missing.
        PathOutsideTableError: A file lies outside of the table.
    """
    if columns.find(ROW_ID) or estimated_size(files, snapshot.schema, columns) < _LEAST_BYTES:
        return None
    table = TableFiles.of(snapshot).in_session(spark)
    if not pc.all(files_for_jvm(spark, files, table, columns)).as_py():
        return None
    return jvm_scan(spark, files, table, columns, to_spark(without_column_mapping(columns)), position=(FILE, ROW))


def in_file_order(positions: DataFrame, snapshot: Snapshot, files: pa.Table, columns: StructType) -> DataFrame:
    """``FILE`` and ``ROW`` of ``jvm_positions``, sorted by them; all rows of a file in one partition.

    Args:
        positions: Some of the rows that ``jvm_positions`` returned.
        snapshot: The table.
        files: The files passed to ``jvm_positions``.
        columns: The columns passed to ``jvm_positions``.
    """
    tasks = file_task_count(positions.sparkSession, files, share=share_of(columns, snapshot.schema))
    return repartition_by_id(positions.select(FILE, ROW), tasks, F.col(FILE)).sortWithinPartitions(FILE, ROW)
