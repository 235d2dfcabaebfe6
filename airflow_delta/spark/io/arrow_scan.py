"""Data files read by Python workers with Arrow: everywhere where Arrow has a filesystem, whatever the log says of a file.

Workers import this module: it knows no parser of predicates.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.table_files import READ_MARK, TableFiles
from airflow_delta.spark.io.worker_values import with_typed_errors
from airflow_delta.spark.session import cores

_TASKS_PER_CORE = 8


def marked_listing(table: TableFiles) -> spark_types.StructType:
    """One column for descriptions of files; it names their table in the plan."""
    return spark_types.StructType([spark_types.StructField("file", spark_types.StringType(), metadata={READ_MARK: table.mark})])


def arrow_scan(
    spark: SparkSession, files: pa.Table, table: TableFiles, columns: StructType, shown: spark_types.StructType
) -> DataFrame:
    """The rows that no deletion vector hides; each task takes a like share of the files.

    Args:
        spark: The session.
        files: ``SCANNED_COLUMNS``; at least one.
        table: Where they lie.
        columns: The columns that are read, partition columns among them.
        shown: The same as the DataFrame shows them.
    """
    described = [
        json.dumps({"path": path, "partition_values": dict(values), "deletion_vector": descriptor})
        for path, values, descriptor in zip(*(files[name].to_pylist() for name in files.column_names), strict=True)
    ]
    tasks = min(len(described), cores(spark) * _TASKS_PER_CORE)
    listed = spark.createDataFrame(pa.table({"file": described}), marked_listing(table))
    return listed.repartition(tasks).mapInArrow(ArrowReader(table=table, columns=columns), shown)


def no_rows(spark: SparkSession, table: TableFiles, shown: spark_types.StructType) -> DataFrame:
    """No rows of these columns, as a table without files has them."""
    (listing,) = marked_listing(table).fields
    listing.name = f"airflow_delta_{uuid.uuid4().hex}"  # that no column of the table has
    return spark.createDataFrame([], spark_types.StructType([listing, *shown.fields])).drop(listing.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowReader:
    """Turns descriptions of files into their rows, in a worker."""

    table: TableFiles
    columns: StructType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        return with_typed_errors(self._rows(batches))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = self.table.rows(self.columns)
        for batch in batches:
            for text in batch.column(0).to_pylist():
                file = json.loads(text)
                yield from rows.of(file["path"], file["partition_values"], hidden_by=file["deletion_vector"])
