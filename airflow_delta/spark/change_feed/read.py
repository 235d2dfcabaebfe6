"""The change data feed as a DataFrame.

The driver finds in the log which files contain the changes of a version; workers read them with Arrow, whatever features the
files use (deletion vectors on both sides of a change, columns matched by id). No row passes through the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.data_files.changed_rows import CHANGE_FIELDS
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import StructField, StructType, without_column_mapping
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.change_feed.committed_files import committed_files
from airflow_delta.spark.change_feed.reader import ChangeReader
from airflow_delta.spark.io.arrow_scan import estimated_size, marked_listing, no_rows
from airflow_delta.spark.io.file_tasks import share_of, tasks_of_files
from airflow_delta.spark.io.map_files import PerTask, map_files
from airflow_delta.spark.io.read_marks import marked
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.schema_conversion import to_spark
from airflow_delta.spark.supported_features import check_scannable


def read_changes(
    spark: SparkSession, log: DeltaLog, start: int | str, end: int | str | None = None, *, columns: Sequence[str] | None = None
) -> DataFrame:
    """The rows that changed in the versions from ``start`` to ``end``, both included, in any order.

    The columns are those of the table at the last version of the range, so that a range always shows the same rows; Delta Spark
    uses those of the latest version, except with column mapping. They are followed by ``_change_type`` (``insert``, ``delete``,
    ``update_preimage``, ``update_postimage``), ``_commit_version`` (bigint) and ``_commit_timestamp`` (timestamp).

    Args:
        spark: The session.
        log: The table's log.
        start: A version, or ISO text (UTC where it names no zone): the first version committed at that time or later.
        end: A version, or ISO text: the last version committed at that time or before; the latest version when None.
        columns: Names of the table's columns to return, in this order; others are not read. All when None.

    Raises:
        ChangeDataNotRecordedError: The change data feed was not enabled for all of these versions.
        ChangeSchemaError: A column of an earlier version is gone or has another type.
        InvalidStatementError: The end lies before the start, or a text is not a time.
        SchemaMismatchError: A column is not in the table.
        UnsupportedReaderFeatureError: Spark cannot read the table here.
        DeltaError: As ``DeltaLog.snapshot`` raises it.
    """
    covered, last = log.changed_range(start, end)
    check_scannable(last.table_uri, last.protocol, last.metadata)
    wanted = last.schema if columns is None else StructType(tuple(_named(last, name) for name in columns))
    shown = to_spark(without_column_mapping(StructType((*wanted.fields, *CHANGE_FIELDS))))
    files = committed_files(last, covered)
    table = TableFiles.of(last, is_newest=end is None).in_session(spark)
    if not len(files):
        return marked(no_rows(spark, table, shown), table)
    rows = map_files(
        spark,
        files,
        tasks_of_files(spark, files, share=share_of(wanted, last.schema)),
        partial(PerTask, ChangeReader(table=table, columns=wanted)),
        shown,
        size=estimated_size(files, last.schema, wanted),
        mark=marked_listing(table),
    )
    return marked(rows, table)


def _named(snapshot: Snapshot, name: str) -> StructField:
    field = snapshot.schema.find(name)
    if field is None:
        raise SchemaMismatchError(table=snapshot.table_uri, differences=(f"{name}: there is no such column",))
    return field
