"""Reading a table with the names of ``spark.read``: all that ``format("delta")`` of a Python data source cannot do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.data_files.changed_rows import CHANGE_FIELDS
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.spark.arguments import OptionValue, checks_arguments, takes_only
from airflow_delta.spark.change_feed.read import read_changes
from airflow_delta.spark.delta_table.identifiers import path_of, path_or_identifier
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.schema_conversion import quoted
from airflow_delta.spark.statement.format_options import ReadOptions
from airflow_delta.spark.statement.times import as_instant

_TIMES = ("timestampasof", "startingtimestamp", "endingtimestamp")


@takes_only
def delta_reader(
    spark: SparkSession, *, storage_options: Mapping[str, Any] | None = None, allowed_prefixes: Iterable[str] = ()
) -> DeltaFrameReader:
    """Stands where ``spark.read`` stood: ``delta_reader(spark).option("versionAsOf", 3).load(path)``.

    Args:
        spark: The session.
        storage_options: As fsspec names them.
        allowed_prefixes: As of ``DeltaLog.for_table``.
    """
    return DeltaFrameReader(spark=spark, storage_options=storage_options, allowed_prefixes=tuple(allowed_prefixes))


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaFrameReader:
    """Made by ``delta_reader``; each method but ``load`` and ``table`` gives a reader that knows one thing more.

    Attributes:
        spark: The session.
        storage_options: As fsspec names them.
        allowed_prefixes: As of ``DeltaLog.for_table``.
        options_given: By name in lower case.
        names: Of the columns wanted, in this order; None for all.
        condition: Which rows are wanted, as Spark SQL; None for all.
    """

    spark: SparkSession
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    allowed_prefixes: tuple[str, ...] = ()
    options_given: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    condition: str | None = None

    def format(self, source: str) -> DeltaFrameReader:
        """Must be ``delta``."""
        if source.lower() != "delta":
            raise InvalidStatementError(statement="READ", detail=f"delta_reader reads the format delta, not {source!r}")
        return self

    def option(self, key: str, value: OptionValue) -> DeltaFrameReader:
        """One of ``versionAsOf``, ``timestampAsOf``, and for the change feed ``readChangeFeed``, ``startingVersion``.

        Also ``startingTimestamp``, ``endingVersion`` and ``endingTimestamp``. A time without a zone is one of the session's.
        Others are refused by ``load``.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, options_given={**self.options_given, key.lower(): text})

    def options(self, **options: OptionValue) -> DeltaFrameReader:
        """Several options."""
        reader = self
        for key, value in options.items():
            reader = reader.option(key, value)
        return reader

    def columns(self, *names: str) -> DeltaFrameReader:
        """Read these columns, in this order; changes keep the columns that say what changed."""
        return replace(self, names=names)

    def where(self, condition: str) -> DeltaFrameReader:
        """Read the rows for which this Spark SQL, and that of earlier calls, is true; files without them are not opened."""
        # The end of a line ends a comment.
        both = condition if self.condition is None else f"({self.condition}\n) AND ({condition}\n)"
        return replace(self, condition=both)

    def table(self, name: str) -> DataFrame:
        """As ``load``, of ``delta.`path` ``, or of a name in the catalog that ``AIRFLOW_DELTA_CATALOG`` names.

        Raises:
            TableNameUnsupportedError: It is a name, and the environment names no catalog.
            TableNameNotFoundError: The catalog has no table of the name; and the other errors of ``catalogs.errors``.
        """
        return self.load(path_of(self.spark, name))

    def load(self, path: str) -> DataFrame:
        """The rows of the table at a path or ``delta.`path` ``, or its changes.

        Raises:
            InvalidStatementError: An option is not known, or not meant so.
            TableNotFoundError: There is no table.
            DeltaError: As ``read_table`` and ``read_changes`` raise it.
        """
        spark = self.spark
        options = ReadOptions.of({**self._with_zones(), "path": path_or_identifier(path)})
        log = table_log(spark, options.path, self.storage_options, self.allowed_prefixes)
        if options.changes is None:
            snapshot = log.snapshot(options.version, options.timestamp)
            is_newest = options.version is None and options.timestamp is None
            return read_table(spark, snapshot, self.names, self.condition, is_newest=is_newest)
        if self.condition is None:
            return read_changes(spark, log, *options.changes, columns=self.names)
        changes = read_changes(spark, log, *options.changes).where(sql_expression(self.condition))
        shown = [*self.names, *(column.name for column in CHANGE_FIELDS)] if self.names is not None else changes.columns
        return changes.select(*map(quoted, shown))

    def _with_zones(self) -> dict[str, str]:
        """The options; a time that names no zone as an instant."""
        given = self.options_given
        return {**given, **{name: as_instant(self.spark, given[name], statement="READ") for name in _TIMES if name in given}}
