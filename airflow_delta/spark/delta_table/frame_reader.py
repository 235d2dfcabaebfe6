"""Reads a table with the method names of ``spark.read``, including what a Python data source ``format("delta")`` cannot do."""

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
    """Replaces ``spark.read``: ``delta_reader(spark).option("versionAsOf", 3).load(path)``.

    Args:
        spark: The session.
        storage_options: Storage options, in fsspec's names.
        allowed_prefixes: As of ``DeltaLog.for_table``.
    """
    return DeltaFrameReader(spark=spark, storage_options=storage_options, allowed_prefixes=tuple(allowed_prefixes))


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaFrameReader:
    """Made by ``delta_reader``; each method except ``load`` and ``table`` returns a new reader with one more setting.

    Attributes:
        spark: The session.
        storage_options: Storage options, in fsspec's names.
        allowed_prefixes: As of ``DeltaLog.for_table``.
        options_given: Options by name in lower case.
        names: Names of the columns to read, in this order; None for all.
        condition: Which rows to read, as Spark SQL; None for all.
    """

    spark: SparkSession
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    allowed_prefixes: tuple[str, ...] = ()
    options_given: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    condition: str | None = None

    def format(self, source: str) -> DeltaFrameReader:
        """Set the format, which must be ``delta``."""
        if source.lower() != "delta":
            raise InvalidStatementError(statement="READ", detail=f"delta_reader reads the format delta, not {source!r}")
        return self

    def option(self, key: str, value: OptionValue) -> DeltaFrameReader:
        """Set ``versionAsOf`` or ``timestampAsOf``, or for the change data feed ``readChangeFeed`` and ``startingVersion``.

        Also ``startingTimestamp``, ``endingVersion`` and ``endingTimestamp``. Times without a zone are in the session's time
        zone. ``load`` raises for all other options.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, options_given={**self.options_given, key.lower(): text})

    def options(self, **options: OptionValue) -> DeltaFrameReader:
        """Set several options."""
        reader = self
        for key, value in options.items():
            reader = reader.option(key, value)
        return reader

    def columns(self, *names: str) -> DeltaFrameReader:
        """Read these columns, in this order; for the change data feed, its own columns are kept."""
        return replace(self, names=names)

    def where(self, condition: str) -> DeltaFrameReader:
        """Read the rows for which this Spark SQL, and that of earlier calls, is true; files without them are skipped."""
        # The line break ends a trailing comment.
        both = condition if self.condition is None else f"({self.condition}\n) AND ({condition}\n)"
        return replace(self, condition=both)

    def table(self, name: str) -> DataFrame:
        """As ``load``, for ``delta.`path` ``, or a name in the catalog named by ``AIRFLOW_DELTA_CATALOG``.

        Raises:
            TableNameUnsupportedError: A catalog name is given, but the environment names no catalog.
            TableNameNotFoundError: The catalog has no table of this name. Also the other errors of ``catalogs.errors``.
        """
        return self.load(path_of(self.spark, name))

    def load(self, path: str) -> DataFrame:
        """The rows of the table at a path or ``delta.`path` ``, or its changes.

        Raises:
            InvalidStatementError: An option is unknown, or its value is invalid.
            TableNotFoundError: There is no table at the path.
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
        """The options, with times that name no zone converted to instants."""
        given = self.options_given
        return {**given, **{name: as_instant(self.spark, given[name], statement="READ") for name in _TIMES if name in given}}
