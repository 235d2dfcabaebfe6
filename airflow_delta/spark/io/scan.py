"""A table at one version, as a DataFrame.

Two readers share the work. Spark's own reader is preferred: it prunes columns and filters in the JVM, and can convert the
legacy calendar. Python workers with Arrow read the rest: files that ``engines`` assigns to them, files with deletion vectors,
files whose columns are matched by id, and very many files. They also read for sessions with case-sensitive names, where Spark's
reader only finds columns in the table's spelling and shows NULL for those of another spelling; for sessions that use Spark's V2
Parquet reader (``spark.sql.sources.useV1SourceList``), which does not show the file of a row; for columns of type void, which
Spark's reader rejects; and, before Spark 4.1, for all tables with variants.

With Spark Connect this process may read a small table itself in the same way, and hold its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.errors import LegacyCalendarError
from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.predicate import TRUE, conjunction, referenced_columns
from airflow_delta.core.schema import StructType, arrow_schema
from airflow_delta.core.schema.column_mapping import MappingMode, without_column_mapping
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.data_types import VARIANT, all_types
from airflow_delta.core.schema.void_columns import holds_void
from airflow_delta.core.snapshot.rows import refuse_deletion_vectors
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.feature import DELETION_VECTORS, reader_features
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.arrow_scan import arrow_scan, estimated_size, no_rows
from airflow_delta.spark.io.data_paths import file_uri
from airflow_delta.spark.io.engines import Engine, engine_for, is_object_store
from airflow_delta.spark.io.jvm_scan import jvm_scan
from airflow_delta.spark.io.predicates import predicate_of_rows
from airflow_delta.spark.io.pushdown import EVERYTHING, Pushdown
from airflow_delta.spark.io.read_marks import marked
from airflow_delta.spark.io.small_work import HeldRows, is_done_here, kept_here
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.jvm import is_connect
from airflow_delta.spark.schema_conversion import quoted, to_spark
from airflow_delta.spark.session import is_case_sensitive, reads_files_by_relation
from airflow_delta.spark.spark_features import opens_files_with_variants
from airflow_delta.spark.supported_features import check_scannable

SCANNED_COLUMNS = ("path", "partition_values", "deletion_vector", "size")
"""The columns of ``ADD_FILE`` needed by a scan."""

_JVM_FILES = 10_000
_JVM_OBJECTS = 1_000
_PATTERN_SIGNS = frozenset("*?[]{}\\")


def read_table(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    is_newest: bool = False,
    pushdown: Pushdown = EVERYTHING,
) -> DataFrame:
    """The rows of a table's version, with the table's columns, types and column metadata.

    Args:
        spark: The session.
        snapshot: The version.
        columns: Names of the columns to return, in this order; None for all. Python workers only read these.
        where: Spark SQL; files without matching rows are skipped.
        is_newest: Whether this version is read because it is the newest. A statement on the table that uses these rows then
            depends on there being no newer version; see ``target_reads``.
        pushdown: What is needed: other rows may be missing, and other columns NULL.

    Raises:
        CorruptDataFileError: A file of the version is missing.
        InvalidPredicateError: ``where`` does not fit the table.
        UnsupportedReaderFeatureError: Spark cannot read the table here.
    """
    schema, table_uri = snapshot.schema, snapshot.table_uri
    check_scannable(table_uri, snapshot.protocol, snapshot.metadata)
    predicate = None if where is None else predicate_of_rows(spark, where, schema, table_uri)
    needed = conjunction([TRUE if predicate is None else predicate, pushdown.predicate])
    files = snapshot.files(None if needed == TRUE else needed, (*SCANNED_COLUMNS, NUM_RECORDS.name))
    if DELETION_VECTORS not in reader_features(snapshot.protocol):
        refuse_deletion_vectors(table_uri, files)
    read = schema
    if columns is not None:
        filtered = referenced_columns(predicate) if predicate else ()
        wanted = {name_key(name) for name in (*columns, *filtered)}
        read = StructType(tuple(field for field in schema.fields if name_key(field.name) in wanted))
    rows = read_files(spark, files, TableFiles.of(snapshot, is_newest=is_newest), read, needed=pushdown.columns)
    rows = rows if where is None else rows.filter(sql_expression(where))
    return rows if columns is None else rows.select(*map(quoted, columns))


def read_files(
    spark: SparkSession,
    files: pa.Table,
    table: TableFiles,
    columns: StructType | None = None,
    *,
    needed: AbstractSet[str] | None = None,
) -> DataFrame:
    """The rows of files of a table: live ones of a version, or staged ones.

    Args:
        spark: The session.
        files: ``SCANNED_COLUMNS`` of ``ADD_FILE``, and ``NUM_RECORDS`` where known.
        table: The table of the files.
        columns: The table's columns to return; all when None.
        needed: Names of the columns whose values matter; the others may be NULL. All when None.

    Raises:
        CorruptDataFileError: A file is missing.
        PathOutsideTableError: A file lies outside of the table.
    """
    read, table = table.schema if columns is None else columns, table.in_session(spark)
    shown = to_spark(without_column_mapping(read))
    is_for_jvm = files_for_jvm(spark, files, table, read)
    natives, others = files.filter(is_for_jvm), files.filter(pc.invert(is_for_jvm))
    parts = ((jvm_scan, natives), (partial(arrow_scan, needed=needed), others))
    scans = [scan(spark, part, table, read, shown) for scan, part in parts if len(part)]
    if not scans:
        return marked(no_rows(spark, table, shown), table)
    return marked(scans[0] if len(scans) == 1 else scans[0].unionAll(scans[1]), table)


def hold_table(spark: SparkSession, snapshot: Snapshot, *, is_newest: bool = False) -> HeldRows | None:
    """With Spark Connect, the rows of a small table, which this process reads and holds; None if Spark should read them."""
    schema, table = snapshot.schema, TableFiles.of(snapshot, is_newest=is_newest)
    files = snapshot.files(None, (*SCANNED_COLUMNS, NUM_RECORDS.name))
    if not is_done_here(spark, schema, estimated_size(files, schema, schema), files=len(files)):
        return None
    check_scannable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    if DELETION_VECTORS not in reader_features(snapshot.protocol):
        refuse_deletion_vectors(snapshot.table_uri, files)
    try:
        rows = kept_here(table.rows(schema).of_each(files.to_pylist()), arrow_schema(schema))
    except LegacyCalendarError:  # Spark can convert them
        return None
    if rows is None:
        return None
    frame = spark.createDataFrame(rows, to_spark(without_column_mapping(all_nullable(schema))))
    return HeldRows(marked(frame, table), rows)


def files_for_jvm(spark: SparkSession, files: pa.Table, table: TableFiles, columns: StructType) -> pa.ChunkedArray:
    """For each file, whether Spark's own reader should read these columns; Python workers read the others.

    Args:
        spark: The session.
        files: ``SCANNED_COLUMNS`` of ``ADD_FILE``.
        table: The table of the files.
        columns: The columns to read.

    Raises:
        PathOutsideTableError: A file lies outside of the table.
    """
    table.locate.check(files["path"])
    is_native = len(files) <= _JVM_FILES  # checked before a million paths become Python objects
    is_native = (
        is_native and table.mapping is not MappingMode.ID and not is_case_sensitive(spark) and reads_files_by_relation(spark)
    )
    is_native = is_native and not holds_void(columns)
    is_native = is_native and (VARIANT not in all_types(table.schema) or opens_files_with_variants(spark))
    if is_native:
        uris = [file_uri(table.table_uri, path) for path in files["path"].to_pylist()]
        is_native = suits_jvm(uris, over_connect=is_connect(spark))
        is_native = is_native and engine_for(spark, uris, table.storage_options) is Engine.JVM
    return pc.and_(files["deletion_vector"].is_null(), pa.scalar(is_native))


def suits_jvm(uris: Sequence[str], *, over_connect: bool = False) -> bool:
    """Whether Spark's own reader suits files with these names, wherever they are.

    Not for names that Spark takes for hidden (which it would silently skip) or that Hadoop cannot represent (colons). With
    Spark Connect, whose server has no option against it, not for paths that are patterns (for ``t*`` it would also read the
    files of ``t1``). Not for very many files: with as many listing tasks as cores, Spark opens 5,000 local files in 0.6-0.9 s
    (with the default of one task per file, which Spark Connect uses, in 11-14 s), but the driver holds several copies of all
    paths, and in an object store each file takes three requests.
    """
    if over_connect and any(not _PATTERN_SIGNS.isdisjoint(uri) for uri in uris):
        return False
    most = _JVM_OBJECTS if over_connect or any(map(is_object_store, uris)) else _JVM_FILES
    names = (PurePosixPath(uri).name for uri in uris)
    return len(uris) <= most and not any(name[0] in "_." or ":" in name or name.endswith("._COPYING_") for name in names)
