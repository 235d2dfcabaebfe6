"""The source of a statement, as a DataFrame and the versions of the tables that went into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.statements import FileSource, Source, SqlSource, TableSource
from airflow_delta.spark.errors import SourceUnreadableError
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.scan import read_table
from airflow_delta.spark.session import temporary_views


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
    """

    frame: DataFrame
    pins: tuple[Pin, ...] = ()
    views: Mapping[str, DataFrame] = field(default_factory=dict)


def open_source(spark: SparkSession, source: Source) -> OpenSource:
    """Resolve a source: each table's version once, each file's schema, the names in its SQL.

    Raises:
        TableNotFoundError: A table of the source does not exist; likewise the errors of reading its version.
        SourceUnreadableError: A file is missing, or the SQL does not fit.
    """
    if isinstance(source, SqlSource):
        return _open_query(spark, source)
    frame, pins = _open_one(spark, source)
    return OpenSource(frame=frame, pins=pins)


def _open_query(spark: SparkSession, source: SqlSource) -> OpenSource:
    opened = {name: _open_one(spark, view) for name, view in source.views.items()}
    views = {name: frame for name, (frame, _) in opened.items()}
    with temporary_views(spark, views), _readable(source.query):
        frame = spark.sql(source.query)
    return OpenSource(frame=frame, pins=tuple(pin for _, pins in opened.values() for pin in pins), views=views)


def _open_one(spark: SparkSession, source: TableSource | FileSource) -> tuple[DataFrame, tuple[Pin, ...]]:
    if isinstance(source, TableSource):
        snapshot = table_log(spark, source.table).snapshot(version=source.version_number, timestamp=source.timestamp)
        return read_table(spark, snapshot), (Pin(table=source.table, version=snapshot.version),)
    with _readable(source.path):
        reader = spark.read.format(source.format).options(**source.options)
        return (reader.schema(source.schema) if source.schema else reader).load(source.path), ()


@contextmanager
def _readable(source: str) -> Iterator[None]:
    """Turn what Spark's analyser refuses into our error."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise SourceUnreadableError(source=source, detail=str(error).splitlines()[0]) from error
