"""Reads data files with Arrow in Python workers, wherever Arrow has a filesystem, and whatever features the files use.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.file_tasks import share_of, tasks_of_files
from airflow_delta.spark.io.map_files import PerTask, map_files
from airflow_delta.spark.io.row_width import row_width
from airflow_delta.spark.io.table_files import READ_MARK, TableFiles
from airflow_delta.spark.schema_conversion import quoted

_READ = ["path", "partition_values", "deletion_vector"]


def marked_listing(table: TableFiles) -> spark_types.StructType:
    """One column for task numbers; its metadata names the table in Spark's plan."""
    return spark_types.StructType([spark_types.StructField("task", spark_types.LongType(), metadata={READ_MARK: table.mark})])


def arrow_scan(
    spark: SparkSession,
    files: pa.Table,
    table: TableFiles,
    columns: StructType,
    shown: spark_types.StructType,
    *,
    needed: AbstractSet[str] | None = None,
) -> DataFrame:
    """The rows not deleted by deletion vectors; tasks share the files by size.

    Args:
        spark: The session.
        files: ``SCANNED_COLUMNS``, and ``NUM_RECORDS`` where known; at least one file.
        table: The table of the files.
        columns: The columns of the result, partition columns included.
        shown: The same columns as Spark's schema.
        needed: Names of the columns to read; the others are NULL. All when None.
    """
    if needed is not None and not needed >= set(columns.names):
        read = [position for position, name in enumerate(columns.names) if name in needed] or [0]
        kept, kept_shown = ([schema.fields[position] for position in read] for schema in (columns, shown))
        rows = arrow_scan(spark, files, table, StructType(tuple(kept)), spark_types.StructType(kept_shown))
        return rows.select(*(_column_or_null(column, rows.columns) for column in shown.fields))
    return map_files(
        spark,
        files.select(_READ),
        tasks_of_files(spark, files, share=share_of(columns, table.schema)),
        partial(PerTask, ArrowReader(table=table, columns=columns)),
        shown,
        size=estimated_size(files, table.schema, columns),
        mark=marked_listing(table),
    )


def estimated_size(files: pa.Table, schema: StructType, columns: StructType) -> int:
    """Approximate bytes in memory of some columns of files.

    Args:
        files: Files with ``size``, and ``NUM_RECORDS`` where known, as there may be more rows than the size suggests.
        schema: All columns of the table.
        columns: The columns to read.
    """
    counted = files[NUM_RECORDS.name] if NUM_RECORDS.name in files.column_names else pa.array([], NUM_RECORDS.type)
    rows = max(pc.sum(counted).as_py() or 0, (pc.sum(files["size"]).as_py() or 0) // row_width(schema))
    return int(rows * row_width(columns))


def _column_or_null(column: spark_types.StructField, names: list[str]) -> Column:
    if column.name in names:
        return F.col(quoted(column.name))
    return F.lit(None).cast(column.dataType).alias(column.name, metadata=column.metadata)


def no_rows(spark: SparkSession, table: TableFiles, shown: spark_types.StructType) -> DataFrame:
    """An empty result with these columns, for a table without files."""
    (listing,) = marked_listing(table).fields
    listing.name = f"airflow_delta_{uuid.uuid4().hex}"  # unique, so that no column of the table has this name
    return spark.createDataFrame([], spark_types.StructType([listing, *shown.fields])).drop(listing.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowReader:
    """Turns files into their rows, in a worker.

    Attributes:
        table: The table of the files.
        columns: The columns to read.
    """

    table: TableFiles
    columns: StructType

    def __call__(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of these files: ``path``, ``partition_values`` and ``deletion_vector``."""
        return self.table.rows(self.columns).of_each(files.to_pylist())
