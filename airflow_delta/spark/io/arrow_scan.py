"""Data files read by Python workers with Arrow: everywhere where Arrow has a filesystem, whatever the log says of a file.

Workers import this module: it knows no parser of predicates.
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
    """One column for numbers of tasks; it names the table of their files in the plan."""
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
    """The rows that no deletion vector hides; tasks share the files by their bytes.

    Args:
        spark: The session.
        files: ``SCANNED_COLUMNS``, and ``NUM_RECORDS`` where it is known; at least one.
        table: Where they lie.
        columns: The columns that are read, partition columns among them.
        shown: The same as the DataFrame shows them.
        needed: Names of those that are read; the others are NULL. All when None.
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
    """Bytes in memory of some columns of files, about.

    Args:
        files: With ``size``, and ``NUM_RECORDS`` where it is known: there may be more rows than their size lets one think.
        schema: All columns of their table.
        columns: Those that are read.
    """
    counted = files[NUM_RECORDS.name] if NUM_RECORDS.name in files.column_names else pa.array([], NUM_RECORDS.type)
    rows = max(pc.sum(counted).as_py() or 0, (pc.sum(files["size"]).as_py() or 0) // row_width(schema))
    return int(rows * row_width(columns))


def _column_or_null(column: spark_types.StructField, names: list[str]) -> Column:
    if column.name in names:
        return F.col(quoted(column.name))
    return F.lit(None).cast(column.dataType).alias(column.name, metadata=column.metadata)


def no_rows(spark: SparkSession, table: TableFiles, shown: spark_types.StructType) -> DataFrame:
    """No rows of these columns, as a table without files has them."""
    (listing,) = marked_listing(table).fields
    listing.name = f"airflow_delta_{uuid.uuid4().hex}"  # that no column of the table has
    return spark.createDataFrame([], spark_types.StructType([listing, *shown.fields])).drop(listing.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowReader:
    """Turns files into their rows, in a worker.

    Attributes:
        table: Where they lie.
        columns: Those that are read.
    """

    table: TableFiles
    columns: StructType

    def __call__(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of these files: ``path``, ``partition_values`` and ``deletion_vector``."""
        return self.table.rows(self.columns).of_each(files.to_pylist())
