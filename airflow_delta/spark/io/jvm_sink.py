"""Rows written by Spark's own Parquet writer, where the JVM knows the filesystem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.data_files.compression import requested_codec
from airflow_delta.core.data_files.indexed_columns import IndexedColumns
from airflow_delta.core.parquet.bloom_filter import MOST_FILTER_BYTES
from airflow_delta.core.schema import ArrayType, MapType, StructField, StructType, physical_name
from airflow_delta.core.schema.column_mapping import PHYSICAL_NAME_KEY
from airflow_delta.core.schema.data_types import VARIANT, all_types
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.committers import committed_directories, committer_options
from airflow_delta.spark.io.file_sink import FileSink
from airflow_delta.spark.io.footers import read_footers
from airflow_delta.spark.io.written_files import WRITTEN_FILE, WrittenFiles
from airflow_delta.spark.jvm import in_session, is_movable
from airflow_delta.spark.schema_conversion import in_files, quoted
from airflow_delta.spark.session import holds, session_with
from airflow_delta.spark.spark_features import observe, takes_layout_as_option

_LAYOUT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # Spark's default is INT96: no statistics, no order
    "spark.sql.parquet.writeLegacyFormat": "false",
}
_FILTER_SIZES = 10
"""Sizes of Bloom filters, each half of the next, that are tried where the number of values is unknown: from 16 KiB to 8 MiB."""
_NO_SETTINGS: Mapping[str, str] = {}
_SHREDDING = ("spark.sql.variant.writeShredding.enabled", "spark.sql.variant.inferShreddingSchema")
_SETTINGS = {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}  # the one that no option of a write reaches


def variant_settings(columns: StructType, configuration: Mapping[str, str]) -> Mapping[str, str]:
    """Whether Spark takes parts of variants into columns of their own, as the table allows it; nothing where there are none.

    Protocol: PROTOCOL.md, "Writer Requirements for Variant Shredding".
    """
    if not any(kind == VARIANT for kind in all_types(columns)):
        return _NO_SETTINGS
    shredded = configuration.get("delta.enableVariantShredding", "").lower()
    return dict.fromkeys(_SHREDDING, "true" if shredded == "true" else "false")


def fit_for_jvm(rows: DataFrame, *, variants: Mapping[str, str] = _NO_SETTINGS) -> DataFrame | None:
    """The rows in a session whose settings suit Spark's writer; None where they cannot be computed in another than theirs.

    Args:
        rows: The rows.
        variants: What ``variant_settings`` says of the files that they go to.
    """
    spark = rows.sparkSession
    # The types in files are chosen by options, which Spark before 4.2 does not look at.
    settings = {**({} if takes_layout_as_option(spark) else _LAYOUT), **_SETTINGS, **variants}
    if holds(spark, settings):
        return rows
    return in_session(rows, session_with(spark, settings)) if is_movable(rows) else None


def write_in_jvm(
    frame: DataFrame, sink: FileSink, aggregates: Mapping[str, Column], *, rows_per_file: int | None = None
) -> WrittenFiles:
    """As ``row_sink.write_files``, of rows that are ``fit_for_jvm``.

    The files are those that lie in the folder afterwards, as their footers describe them.
    """
    staging, folder = sink.staging, sink.folder
    rows, observed = observe(frame, aggregates)
    spread = [sink.directory] if sink.directory else []
    codec = requested_codec(sink.configuration)
    committer = committer_options(frame.sparkSession, staging.uri)
    options = {**_LAYOUT, **committer}
    options |= _filters(sink)
    options |= {} if codec is None else {"compression": codec}
    options |= {} if rows_per_file is None else {"maxRecordsPerFile": str(rows_per_file)}
    writer = _as_files_hold_them(rows, sink.columns, spread).write.options(**options).partitionBy(*spread)
    writer.parquet(f"{staging.uri}/{folder}")
    found = staging.list_files(folder)
    committed = committed_directories(frame.sparkSession, committer, f"{staging.uri}/{folder}")
    if committed is not None:
        root = f"{staging.root}/{staging.name}/{folder}/"
        found = [file for file in found if file.path.removeprefix(root).split("/")[0] in committed]
    return WrittenFiles(files=_described(frame, sink, found), observed=observed())


def _filters(sink: FileSink) -> dict[str, str]:
    """The options of Spark's writer for the Bloom filters that the table wants.

    It writes none for what it stores in a dictionary from the first page to the last. Without a number of distinct values it
    tries several sizes at once, and keeps the least that is large enough.
    """
    indexed = IndexedColumns.from_properties(sink.configuration)
    names = [physical_name(field) for field in indexed.fields(sink.columns)]
    if not names:
        return {}
    options = {"parquet.bloom.filter.max.bytes": str(MOST_FILTER_BYTES)}
    options["parquet.bloom.filter.adaptive.enabled"] = str(indexed.items is None).lower()
    for name in names:
        options[f"parquet.bloom.filter.enabled#{name}"] = "true"
        options[f"parquet.bloom.filter.fpp#{name}"] = str(indexed.false_positives)
        options[f"parquet.bloom.filter.candidates.number#{name}"] = str(_FILTER_SIZES)
        if indexed.items is not None:
            options[f"parquet.bloom.filter.expected.ndv#{name}"] = str(min(indexed.items, indexed.most_items))
    return options


def _described(frame: DataFrame, sink: FileSink, found: Sequence[pafs.FileInfo]) -> pa.Table:
    staging, paths = sink.staging, [file.path for file in found]
    footers = read_footers(frame.sparkSession, staging.store, paths, sink.columns, sink.configuration)
    listed = {file.path: file for file in found}
    files = [listed[path] for path in footers["path"].to_pylist()]
    described = {
        "path": pa.array([staging.log_path(file.path) for file in files], pa.string()),
        "directory": pa.array([PurePosixPath(file.path).parent.name.rpartition("=")[2] for file in files], pa.string()),
        "size": pa.array([file.size for file in files], pa.int64()),
        "modification_time": pa.array([file.mtime_ns // 1_000_000 for file in files], pa.int64()),
        "num_records": footers["num_records"],
        "stats": footers["stats"],
    }
    return pa.table([described[name] for name in WRITTEN_FILE.names], schema=WRITTEN_FILE)


def _as_files_hold_them(rows: DataFrame, columns: StructType, spread: list[str]) -> DataFrame:
    """The columns under the names that they have in files; rows that have just these already, as they are.

    For each column that is selected the JVM is called several times, and plans it in one more projection.
    """
    is_mapped = any(PHYSICAL_NAME_KEY in field.metadata for field in columns.fields)
    if not is_mapped and [name for name in rows.columns if name not in spread] == list(columns.names):
        return rows
    in_file = in_files(all_nullable(columns))  # Spark casts nothing that may be NULL to what may not be
    stored = (_as_stored(*fields) for fields in zip(columns.fields, in_file.fields, strict=True))
    return rows.select(*spread, *stored)


def _as_stored(field: StructField, stored: spark_types.StructField) -> Column:
    """The column as files hold it; a cast to the same type with other names renames what is inside, by position."""
    column = F.col(quoted(field.name))
    if PHYSICAL_NAME_KEY not in field.metadata:
        return column
    inside = column.cast(stored.dataType) if isinstance(field.type, StructType | ArrayType | MapType) else column
    return inside.alias(stored.name, metadata=stored.metadata)
