"""Reads data files with Spark's own Parquet reader."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.errors import MissingDataFileError
from airflow_delta.core.schema import StructField, StructType, partition_arrays
from airflow_delta.core.schema.char_columns import without_char
from airflow_delta.core.schema.column_mapping import MappingMode, physical_name, physical_schema, without_column_mapping
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.data_paths import file_uri
from airflow_delta.spark.io.float_order import WITHOUT_SKIPPING, has_float_members, has_floats, is_float, unskipped
from airflow_delta.spark.io.partition_columns import partition_columns
from airflow_delta.spark.io.table_files import READ_MARK, TableFiles
from airflow_delta.spark.io.tasks import FOOTER_BYTES, task_count
from airflow_delta.spark.jvm import analyzed, in_session, is_connect
from airflow_delta.spark.schema_conversion import quoted, to_spark
from airflow_delta.spark.session import cores, session_with

_READER_OPTIONS = {
    "recursiveFileLookup": "true",  # take no partition values from paths
    "__globPaths__": "false",  # a path is a path, whatever characters it contains
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
}
_LISTING = "spark.sql.sources.parallelPartitionDiscovery"


def jvm_scan(
    spark: SparkSession,
    files: pa.Table,
    table: TableFiles,
    columns: StructType,
    shown: spark_types.StructType,
    *,
    position: tuple[str, str] | None = None,
) -> DataFrame:
    """The rows of files without deletion vectors.

    Args:
        spark: The session.
        files: ``SCANNED_COLUMNS``; at least one file.
        table: The table of the files; its columns must not be matched by id.
        columns: The columns of the result, partition columns included.
        shown: The same columns as Spark's schema.
        position: Names of two additional columns: the index of a row's file (int), and the row's position in it (bigint).

    Raises:
        MissingDataFileError: A file is missing.
        PathOutsideTableError: A link leads outside of the table.
    """
    partitions = [field for field in columns.fields if field.name in table.partition_columns]
    stored = columns.without(table.partition_columns)
    read = without_column_mapping(physical_schema(stored))
    paths = files["path"].to_pylist()
    if scheme_of(table.table_uri) == "file":
        locate = table.locate
        for path in paths:  # checked here, because the JVM follows links wherever they lead
            locate(path)
    uris = [file_uri(table.table_uri, path) for path in paths]
    in_files = to_spark(read)
    options = _READER_OPTIONS | {READ_MARK: table.mark} | (WITHOUT_SKIPPING if has_float_members(in_files) else {})
    try:
        reader = listing_session(spark, len(paths)).read.schema(in_files).options(**options)
        rows = in_session(analyzed(reader.parquet(*uris)), spark)
    except AnalysisException as error:
        raise _missing(table.table_uri, uris, error) from error
    by_name = dict(zip(columns.names, shown.fields, strict=True))
    # Spark's reader returns everything as nullable, and cannot cast that to NOT NULL.
    nullable = to_spark(without_column_mapping(all_nullable(stored))).fields
    selected = {field.name: _stored(field, one, table.mapping) for field, one in zip(stored.fields, nullable, strict=True)}
    values: dict[str, pa.Array] = {}
    if partitions:
        in_log = StructType(tuple(partitions))
        values |= partition_arrays(files, (in_log if table.pads_char else without_char(in_log)).fields)
    if position is not None:
        file, row = position
        values[file] = pa.array(range(len(files)), pa.int32())
        by_name[file] = spark_types.StructField(file, spark_types.IntegerType())
        selected[row] = rows.metadataColumn("_metadata")["row_index"].alias(row)
    if values:
        metadata, keys = rows.metadataColumn("_metadata"), _metadata_paths(rows, uris)
        selected |= dict(zip(values, partition_columns(metadata["file_path"], keys, values, by_name), strict=True))
    elif table.mapping is MappingMode.NONE and not has_floats(in_files):
        return rows.select("*")  # keeps Spark's INSERT into a view of the rows from writing past the log
    return rows.select(*(selected[name] for name in (*columns.names, *(position or ()))))


def listing_session(spark: SparkSession, files: int) -> SparkSession:
    """The session in which Spark lists this many files: by default it would start a task for each of them."""
    if is_connect(spark) or files <= int(str(spark.conf.get(f"{_LISTING}.threshold"))):
        return spark
    tasks = task_count(files * FOOTER_BYTES, files, cores(spark))
    return session_with(spark, {f"{_LISTING}.parallelism": str(tasks)})


def _stored(field: StructField, shown: spark_types.StructField, mapping: MappingMode) -> Column:
    """The column under its logical name; a cast renames nested fields, by position."""
    column = F.col(quoted(physical_name(field)))
    if is_float(shown.dataType):
        return unskipped(column).alias(shown.name, metadata=shown.metadata)
    return column if mapping is MappingMode.NONE else column.cast(shown.dataType).alias(shown.name, metadata=shown.metadata)


def _metadata_paths(rows: DataFrame, uris: Sequence[str]) -> list[str]:
    """The files in the spelling of the rows' column ``_metadata``."""
    # Spark spells paths in its own way; decoding is unambiguous, encoding is not.
    spelled = {_place(unquote(uri)): uri for uri in rows.inputFiles()}
    return [_as_metadata_path(spelled[_place(uri)]) for uri in uris]


def _place(uri: str) -> tuple[str, str]:
    """Scheme and path, which all spellings of a file have in common (the authority may be omitted as default)."""
    scheme, _, path = uri.partition(":")
    return scheme, f"/{path[2:].partition('/')[2]}" if path.startswith("//") else path


def _as_metadata_path(uri: str) -> str:
    """A file in the spelling of the column ``_metadata``: ``file:/x`` instead of ``file:///x``."""
    return uri.replace("file:///", "file:/", 1) if uri.startswith("file:///") else uri


def _missing(table_uri: str, uris: Sequence[str], error: AnalysisException) -> Exception:
    if error.getCondition() != "PATH_NOT_FOUND":
        return error
    path = (error.getMessageParameters() or {}).get("path", uris[0])
    return MissingDataFileError(table=table_uri, file=path, detail="the file does not exist")
