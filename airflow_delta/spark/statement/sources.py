"""The source of a statement, as a DataFrame and the versions of the tables that went into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import FileSource, Source, SqlSource, TableSource
from airflow_delta.spark.errors import SourceUnreadableError, first_line
from airflow_delta.spark.hadoop.table_log import table_log, table_place
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.jvm import analyzed
from airflow_delta.spark.session import query
from airflow_delta.spark.statement.target_reads import VIEW_OF_TARGET


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A version that a statement read: with it the same rows can be read again.

    Attributes:
        table: URI of the table, as in the source.
    """

    table: str
    version: int

    def to_json(self) -> dict[str, str | int]:
        """The pin as a JSON object."""
        return {"table": self.table, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSource:
    """The rows of a source; nothing is computed yet.

    Attributes:
        frame: The rows.
        pins: Tables that were read, in the order of their views.
        views: What the source's SQL sees beside Spark's own tables, by name.
        has_target: Whether one of the tables and views is the statement's target, so that all this is of one version of it.
    """

    frame: DataFrame
    pins: tuple[Pin, ...] = ()
    views: Mapping[str, DataFrame] = field(default_factory=dict)
    has_target: bool = False


def open_source(spark: SparkSession, source: Source, *, target: Snapshot | None = None) -> OpenSource:
    """Resolve a source: each table's version once, each file's schema, the names in its SQL.

    Args:
        spark: The session.
        source: Where the rows come from.
        target: The version of the statement's target that the transaction stands on: the source sees the same one.

    Raises:
        TableNotFoundError: A table of the source does not exist; likewise the errors of reading its version.
        SourceUnreadableError: A file is missing, or the SQL does not fit.
    """
    if isinstance(source, SqlSource):
        return _open_query(spark, source, target)
    opened = _open_one(spark, source, target)
    return OpenSource(frame=opened.frame, pins=opened.pins, has_target=opened.has_target)


def _open_query(spark: SparkSession, source: SqlSource, target: Snapshot | None) -> OpenSource:
    opened = {name: _open_one(spark, view, target) for name, view in source.views.items()}
    views = {name: view.frame for name, view in opened.items()}
    with _readable(source.query):
        frame = query(spark, source.query, views)
    pins = tuple(pin for view in opened.values() for pin in view.pins)
    return OpenSource(frame=frame, pins=pins, views=views, has_target=any(view.has_target for view in opened.values()))


def _open_one(spark: SparkSession, source: TableSource | FileSource, target: Snapshot | None) -> OpenSource:
    if isinstance(source, TableSource):
        return _open_table(spark, source, target)
    with _readable(source.path):
        reader = spark.read.format(source.format).options(**source.options)
        return OpenSource(frame=analyzed((reader.schema(source.schema) if source.schema else reader).load(source.path)))


def _open_table(spark: SparkSession, source: TableSource, target: Snapshot | None) -> OpenSource:
    is_newest = source.version is None and source.timestamp is None
    if is_newest and target is not None and table_place(spark, source.table) == table_place(spark, target.table_uri):
        frame = read_table(spark, target, is_newest=True).alias(VIEW_OF_TARGET)
        return OpenSource(frame=frame, pins=(Pin(table=source.table, version=target.version),), has_target=True)
    snapshot = table_log(spark, source.table).snapshot(version=source.version_number, timestamp=source.timestamp)
    frame = read_table(spark, snapshot, is_newest=is_newest)
    return OpenSource(frame=frame, pins=(Pin(table=source.table, version=snapshot.version),))


@contextmanager
def _readable(source: str) -> Iterator[None]:
    """Turn what Spark's analyzer refuses into our error."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise SourceUnreadableError(source=source, detail=first_line(error)) from error
