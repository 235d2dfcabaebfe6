"""A table at one version, as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.data_files import open_data_file
from airflow_delta.core.errors import CorruptDataFileError
from airflow_delta.core.predicate import parse_predicate
from airflow_delta.core.schema import StructField, StructType, parse_schema, partition_arrays, schema_json
from airflow_delta.core.schema.data_types import BOOLEAN, STRING
from airflow_delta.core.snapshot.rows import refuse_deletion_vectors
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.spark.data_paths import file_uri
from airflow_delta.spark.session import session_settings, time_zone
from airflow_delta.spark.spark_schema import quoted, to_spark
from airflow_delta.spark.supported import check_scannable

_JVM_FILES = 10_000
_JVM_SCHEMES = ("file", "hdfs")
_READER_OPTIONS = {
    "recursiveFileLookup": "true",  # no partition values out of paths
    "__globPaths__": "false",  # a path is a path, whatever signs it holds
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
}
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def read_table(
    spark: SparkSession, snapshot: Snapshot, columns: Sequence[str] | None = None, where: str | None = None
) -> DataFrame:
    """The rows of a table's version, with the table's columns, types and column metadata.

    Args:
        spark: The session.
        snapshot: The version.
        columns: Names of the columns wanted, in this order; None for all.
        where: Spark SQL; files that hold no such row are not opened.

    Raises:
        CorruptDataFileError: A file of the version is missing.
        InvalidPredicateError: ``where`` does not fit the table.
    """
    schema, table_uri = snapshot.schema, snapshot.table_uri
    check_scannable(table_uri, snapshot.protocol, snapshot.metadata)
    predicate = None if where is None else parse_predicate(where, schema, table_uri, time_zone=time_zone(spark))
    files = snapshot.files(predicate)
    refuse_deletion_vectors(table_uri, files)
    rows = read_files(spark, table_uri, files, schema, snapshot.partition_columns)
    rows = rows if where is None else rows.filter(where)
    return rows if columns is None else rows.select(*map(quoted, columns))


def read_files(
    spark: SparkSession, table_uri: str, files: pa.Table, schema: StructType, partition_columns: Sequence[str]
) -> DataFrame:
    """The rows of files of a table: active ones of a version, or staged ones.

    Args:
        spark: The session.
        table_uri: The table's root.
        files: Columns ``path`` and ``partition_values`` of ``ADD_FILE``.
        schema: The table's schema, or the columns of it that are wanted.
        partition_columns: Names of the columns that are not in the files.

    Raises:
        CorruptDataFileError: A file is missing.
    """
    uris = [file_uri(table_uri, path) for path in files["path"].to_pylist()]
    if not uris:
        return spark.createDataFrame([], to_spark(schema))
    scan = _jvm_scan if suits_jvm(uris) else _arrow_scan
    return scan(spark, table_uri, files, uris=uris, schema=schema, partition_columns=partition_columns)


def suits_jvm(uris: Sequence[str]) -> bool:
    """Whether Spark's own reader takes these files; otherwise Python workers read them with Arrow.

    Spark's reader prunes columns and filters in the JVM, and knows the old calendar, so it is the first choice. It is not for
    filesystems that Hadoop may lack the classes for; for names that it takes for hidden (it would leave them out, silently) or
    that Hadoop cannot express (colons); nor for very many files: with as many listing tasks as cores it opens 5,000 local files
    in 0.6-0.9 s (with the default of one task per file in 11-14 s), but the driver holds all paths several times.
    """
    names = (PurePosixPath(uri).name for uri in uris)
    return (
        len(uris) <= _JVM_FILES
        and all(scheme_of(uri) in _JVM_SCHEMES for uri in uris)
        and not any(name[0] in "_." or ":" in name for name in names)
    )


def _jvm_scan(
    spark: SparkSession,
    table_uri: str,
    files: pa.Table,
    *,
    uris: Sequence[str],
    schema: StructType,
    partition_columns: Sequence[str],
) -> DataFrame:
    partitions = [each for each in schema.fields if each.name in partition_columns]
    stored = to_spark(schema.without(tuple(partition_columns)))
    try:
        with session_settings(spark, {_LISTING_TASKS: str(spark.sparkContext.defaultParallelism)}):
            rows = spark.read.schema(stored).options(**_READER_OPTIONS).parquet(*uris)
    except AnalysisException as error:
        raise _missing(table_uri, uris, error) from error
    if not partitions:
        return rows
    # Spark spells a file its own way; decoding is unambiguous where encoding is not.
    spelled = {_place(unquote(each)): each for each in rows.inputFiles()}
    keys = pa.array([_as_metadata_path(spelled[_place(uri)]) for uri in uris], pa.string())
    values = partition_arrays(files, partitions)
    file_name, known_name = _unused_names(schema)
    columns = StructType((StructField(file_name, STRING), StructField(known_name, BOOLEAN), *partitions))
    known = pa.repeat(pa.scalar(True), len(keys))
    by_file = spark.createDataFrame(pa.table({file_name: keys, known_name: known, **values}), to_spark(columns))
    located = rows.withColumn(file_name, rows.metadataColumn("_metadata")["file_path"]).join(
        F.broadcast(by_file), file_name, "left"
    )
    # Should Spark ever spell a file in a third way, its rows must not just be missing.
    unknown = F.raise_error(F.concat(F.lit("no partition values are known for "), file_name)).cast("boolean")
    return located.filter(F.coalesce(known_name, unknown)).select(*map(quoted, schema.names))


def _unused_names(schema: StructType) -> tuple[str, str]:
    """Names for the columns of files and of known files that no column of the table has."""
    prefix = "_"
    while any(name.startswith(prefix) for name in schema.names):
        prefix += "_"
    return f"{prefix}file", f"{prefix}known"


def _place(uri: str) -> tuple[str, str]:
    """Scheme and path: what the spellings of one file have in common (the authority may be a default one)."""
    scheme, _, path = uri.partition(":")
    return scheme, f"/{path[2:].partition('/')[2]}" if path.startswith("//") else path


def _as_metadata_path(uri: str) -> str:
    """A file as the column ``_metadata`` writes it: ``file:/x`` where other places write ``file:///x``."""
    return uri.replace("file:///", "file:/", 1) if uri.startswith("file:///") else uri


def _missing(table_uri: str, uris: Sequence[str], error: AnalysisException) -> Exception:
    if error.getCondition() != "PATH_NOT_FOUND":
        return error
    path = (error.getMessageParameters() or {}).get("path", uris[0])
    return CorruptDataFileError(table=table_uri, file=path, detail="the file is missing")


def _arrow_scan(
    spark: SparkSession,
    table_uri: str,
    files: pa.Table,
    *,
    uris: Sequence[str],
    schema: StructType,
    partition_columns: Sequence[str],
) -> DataFrame:
    """Python workers read the files; each task takes a like share of them."""
    values = [
        json.dumps({name: text for name, text in pairs if name in partition_columns})
        for pairs in files["partition_values"].to_pylist()
    ]
    listed = spark.createDataFrame(pa.table({"uri": list(uris), "partition_values": values}))
    tasks = min(len(uris), spark.sparkContext.defaultParallelism * 8)
    return listed.repartition(tasks).mapInArrow(_reader(table_uri, schema_json(schema)), to_spark(schema))


def _reader(table_uri: str, schema_text: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = parse_schema(schema_text)
        for batch in batches:
            for file in batch.to_pylist():
                filesystem, path = data_filesystem(file["uri"])
                yield from open_data_file(filesystem, path, schema, json.loads(file["partition_values"]), table=table_uri)

    return read
