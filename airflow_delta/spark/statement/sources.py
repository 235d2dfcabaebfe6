"""Opens the source of a statement: its rows as a DataFrame, and the versions of the tables that it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidSchemaError, SchemaMismatchError
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import FileSource, PythonSource, Source, SqlSource, TableSource
from airflow_delta.core.statements.publish import StagedHandle
from airflow_delta.spark.errors import SourceUnreadableError, first_line
from airflow_delta.spark.hadoop.table_log import table_log, table_place
from airflow_delta.spark.io.float_order import (
    PROJECTED_COLUMNS,
    WITHOUT_SKIPPING,
    has_float_members,
    has_floats,
    with_floats_unskipped,
)
from airflow_delta.spark.io.scan import hold_table
from airflow_delta.spark.jvm import Py4JJavaError, analyzed, is_connect
from airflow_delta.spark.schema_conversion import from_spark
from airflow_delta.spark.statement.python_function import call_function
from airflow_delta.spark.statement.query import QueryViews, TableAtVersion, query_rows

_DIFFERENT_TYPES = re.compile(r'\[CANNOT_MERGE_SCHEMAS\][^\n]*\nInitial schema:\n"([^\n]*)"\n[^\n]*\n"([^\n]*)"')
_FORMAT = re.compile(r"data source: `?(?P<name>[\w.]{1,100}?)`?\.(?!\w)")
"""Matches Spark's message about an unknown format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A version that a statement read, with which the same rows can be read again.

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
        pins: The tables that are read, in the order of their views.
        views: The complete views that the source's SQL can use by name; for a function, its tables and files.
        has_target: Whether one of the tables and views is the statement's target, so that all of this is tied to one version of
            it.
        size: Approximate bytes of the rows in memory; None if unknown, or not needed.
        held: The same rows as Arrow data, if this process holds them.
    """

    frame: DataFrame
    pins: tuple[Pin, ...] = ()
    views: Mapping[str, DataFrame] = field(default_factory=dict)
    has_target: bool = False
    size: int | None = None
    held: pa.Table | None = None

    def columns(self, table: str) -> StructType:
        """The columns of the rows.

        Args:
            table: URI of the statement's target, for errors.

        Raises:
            SchemaMismatchError: Two columns have the same name.
            UnsupportedTypeError: A table cannot have columns of such a type.
        """
        try:
            return from_spark(self.frame.schema)
        except InvalidSchemaError as error:
            detail = error.detail.removeprefix("ValueError: ")
            raise SchemaMismatchError(table=table, differences=(f"in the source {detail}",)) from error


def open_source(spark: SparkSession, source: Source, *, target: Snapshot | None = None, may_hold: bool = False) -> OpenSource:
    """Open a source: determines the version of each table, the schema of each file, and resolves names in its SQL.

    Args:
        spark: The session.
        source: Where the rows come from.
        target: The version of the statement's target that the transaction is based on, which the source reads, too.
        may_hold: Whether this process may read a small table itself, which pays off if it needs the rows.

    Raises:
        TableNotFoundError: A table of the source does not exist. Also the errors of reading its version.
        SourceUnreadableError: A file does not exist, or the SQL is invalid for its views.
        FunctionFailedError: A function raised an error of its own.
        FunctionResultError: A function did not return a DataFrame.
    """
    match source:
        case SqlSource():
            return _open_views(spark, source.views, target, partial(_queried, source.query))
        case PythonSource():
            sources = {name: value for name, value in source.arguments.items() if isinstance(value, TableSource | FileSource)}
            return _open_views(spark, sources, target, partial(call_function, source))
        case TableSource():
            return _open_table(spark, source, target, may_hold=may_hold)
        case FileSource():
            return OpenSource(frame=_open_files(spark, source, is_whole=True))


def _open_views(
    spark: SparkSession,
    sources: Mapping[str, TableSource | FileSource],
    target: Snapshot | None,
    rows: Callable[[QueryViews], DataFrame],
) -> OpenSource:
    """The rows computed from several sources, each opened once."""
    named = {name: view for name, view in sources.items() if isinstance(view, TableSource)}
    tables = {name: _at_version(spark, view, target) for name, view in named.items()}
    files = {name: _open_files(spark, view) for name, view in sources.items() if isinstance(view, FileSource)}
    views = QueryViews(spark=spark, tables=tables, others=files)
    pins = tuple(Pin(table=named[name].table, version=table.snapshot.version) for name, table in tables.items())
    return OpenSource(frame=rows(views), pins=pins, views=views, has_target=any(table.is_target for table in tables.values()))


def _queried(query: str, views: QueryViews) -> DataFrame:
    with readable(query):
        return query_rows(query, views)


def _open_files(spark: SparkSession, source: FileSource, *, is_whole: bool = False) -> DataFrame:
    """The rows of files; those that are read whole gain little from skipping, which queries of their columns may need."""
    with readable(source.path):
        reader = spark.read.format(source.format).options(**source.options)
        reader = reader.schema(source.schema) if source.schema else reader
        files = analyzed(reader.load(source.path))
        if source.format.lower() != "parquet":
            return files
        is_wide = is_whole and has_floats(files.schema) and len(files.schema) > PROJECTED_COLUMNS
        if is_wide or has_float_members(files.schema):
            files = analyzed(reader.options(**WITHOUT_SKIPPING).load(source.path))
        return files if is_wide else with_floats_unskipped(files)


def _open_table(spark: SparkSession, source: TableSource, target: Snapshot | None, *, may_hold: bool) -> OpenSource:
    table = _at_version(spark, source, target)
    pin = Pin(table=source.table, version=table.snapshot.version)
    size = table.size if is_connect(spark) else None  # a classic session does not need it
    holds = may_hold and not table.is_target
    if holds and (held := hold_table(spark, table.snapshot, is_newest=table.is_newest)):
        return OpenSource(frame=held.frame, pins=(pin,), size=size, held=held.rows)
    return OpenSource(frame=table.rows(spark), pins=(pin,), has_target=table.is_target, size=size)


def _at_version(spark: SparkSession, source: TableSource, target: Snapshot | None) -> TableAtVersion:
    if isinstance(source.staged, StagedHandle) and source.staged.id is not None:
        return TableAtVersion(snapshot=as_staged(table_log(spark, source.table), source.staged).refresh(), is_newest=False)
    is_newest = source.version is None and source.timestamp is None
    if is_newest and target is not None and table_place(spark, source.table) == table_place(spark, target.table_uri):
        return TableAtVersion(snapshot=target, is_newest=True, is_target=True)
    snapshot = table_log(spark, source.table).snapshot(version=source.version_number, timestamp=source.timestamp)
    return TableAtVersion(snapshot=snapshot, is_newest=is_newest)


def as_staged(log: DeltaLog, handle: StagedHandle | str | None) -> DeltaLog:
    """The log, or, with a handle, the log with the staged commit as its newest version. Raises as ``DeltaLog.staged``."""
    return log.staged(handle) if isinstance(handle, StagedHandle) and handle.id is not None else log


@contextmanager
def readable(source: str) -> Iterator[None]:
    """Convert errors of Spark's analyzer to this package's error."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise SourceUnreadableError(source=source, detail=first_line(error)) from error
    except (Py4JJavaError, PySparkException) as error:
        if differing := _DIFFERENT_TYPES.search(str(error)):
            columns = " and ".join(f"{text:.300}" for text in differing.groups())
            detail = f"its files differ in the types of columns: {columns}; name the columns by schema, or rewrite the files"
            raise SourceUnreadableError(source=source, detail=detail) from error
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        found = _FORMAT.search(str(error))
        name = f" {found['name']}" if found else ""
        detail = f"Spark does not have its format{name}; csv, json, parquet, orc and text are built in, others need a package"
        raise SourceUnreadableError(source=source, detail=detail) from error
