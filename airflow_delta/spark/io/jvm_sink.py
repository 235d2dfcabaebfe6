"""Writes rows with Spark's own Parquet writer, where the JVM has a filesystem for the storage."""

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
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # Spark's default is INT96, which has no statistics
    "spark.sql.parquet.writeLegacyFormat": "false",
}
_FILTER_SIZES = 10
"""Sizes of Bloom filters to try if the number of values is unknown, each half of the next: from 16 KiB to 8 MiB."""
_NO_SETTINGS: Mapping[str, str] = {}
_SHREDDING = ("spark.sql.variant.writeShredding.enabled", "spark.sql.variant.inferShreddingSchema")
_SETTINGS = {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}  # cannot be set by an option of a write


def variant_settings(columns: StructType, configuration: Mapping[str, str]) -> Mapping[str, str]:
    """Settings that make Spark shred variants if the table allows it; empty without variants.

    Protocol: PROTOCOL.md, "Writer Requirements for Variant Shredding".
    """
    if not any(kind == VARIANT for kind in all_types(columns)):
        return _NO_SETTINGS
    shredded = configuration.get("delta.enableVariantShredding", "").lower()
    return dict.fromkeys(_SHREDDING, "true" if shredded == "true" else "false")


def fit_for_jvm(rows: DataFrame, *, variants: Mapping[str, str] = _NO_SETTINGS) -> DataFrame | None:
    """The rows in a session whose settings suit Spark's writer; None if they cannot be moved to another session.

    Args:
        rows: The rows.
        variants: Settings from ``variant_settings``.
    """
    spark = rows.sparkSession
    # Options determine the types in files, but Spark before 4.2 ignores them.
    settings = {**({} if takes_layout_as_option(spark) else _LAYOUT), **_SETTINGS, **variants}
    if holds(spark, settings):
        return rows
    return in_session(rows, session_with(spark, settings)) if is_movable(rows) else None


def write_in_jvm(
    frame: DataFrame, sink: FileSink, aggregates: Mapping[str, Column], *, rows_per_file: int | None = None
) -> WrittenFiles:
    """As ``row_sink.write_files``, for rows that are ``fit_for_jvm``.

    Returns all files found in the folder afterwards, as their footers describe them.
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
    """Options of Spark's writer for the Bloom filters that the table requires.

    Spark writes none for a chunk that is dictionary-encoded throughout. Without a number of distinct values it tries several
    sizes at once, and keeps the smallest that suffices.
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
    """The columns with their names in files; rows that already have exactly these are returned unchanged.

    Each selected column costs several JVM calls, and a projection in Spark's plan.
    """
    is_mapped = any(PHYSICAL_NAME_KEY in field.metadata for field in columns.fields)
    if not is_mapped and [name for name in rows.columns if name not in spread] == list(columns.names):
        return rows
    in_file = in_files(all_nullable(columns))  # Spark cannot cast nullable columns to NOT NULL
    stored = (_as_stored(*fields) for fields in zip(columns.fields, in_file.fields, strict=True))
    return rows.select(*spread, *stored)


def _as_stored(field: StructField, stored: spark_types.StructField) -> Column:
    """The column as files contain it; a cast to the same type with other names renames nested fields, by position."""
    column = F.col(quoted(field.name))
    if PHYSICAL_NAME_KEY not in field.metadata:
        return column
    inside = column.cast(stored.dataType) if isinstance(field.type, StructType | ArrayType | MapType) else column
    return inside.alias(stored.name, metadata=stored.metadata)
