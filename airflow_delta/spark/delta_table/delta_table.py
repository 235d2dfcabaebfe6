"""A table for scripts, with the methods of delta-spark's Python ``DeltaTable``, implemented by this package's operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType as SparkStruct

from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, TableNotFoundError
from airflow_delta.core.schema import without_column_mapping
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import CreateMode, DeleteStatement, UpdateStatement
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.core.table_changes.ddl import parse_struct
from airflow_delta.spark.arguments import checks_arguments
from airflow_delta.spark.delta_table.answers import detail_row, history_rows, restore_row
from airflow_delta.spark.delta_table.expressions import Expression, Names, as_text
from airflow_delta.spark.delta_table.identifiers import hadoop_options, path_in, path_of, path_or_identifier
from airflow_delta.spark.delta_table.merge_builder import Assignments, DeltaMergeBuilder, assigned
from airflow_delta.spark.delta_table.named_tables import NamedTables, name_parts
from airflow_delta.spark.delta_table.optimize_builder import DeltaOptimizeBuilder
from airflow_delta.spark.delta_table.session_settings import checks_retention
from airflow_delta.spark.delta_table.table_builder import DeltaTableBuilder
from airflow_delta.spark.distributed.file_copy import SparkFileCopier
from airflow_delta.spark.distributed.vacuum import SparkVacuumExecutor
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.io.scan import read_table
from airflow_delta.spark.schema_conversion import from_spark, to_spark
from airflow_delta.spark.session import time_zone
from airflow_delta.spark.statement.times import milliseconds

# ruff: noqa: N802, N803, A002, FBT001, FBT002 - the names and the order of arguments are delta-spark's

_MANIFEST = "symlink_format_manifest"


@checks_arguments
class DeltaTable:
    """One Delta table. Make it with ``forPath``, ``forName``, or one of the builders.

    Every method reads the version that is newest when it is called. A table requested by ``version`` or ``timestamp`` stays at
    that version, and refuses changes. Methods raise what their underlying operations raise.
    """

    def __init__(self, spark: SparkSession, log: DeltaLog, *, pinned: Snapshot | None = None, alias: str | None = None) -> None:
        self._spark = spark
        self._log = log
        self._pinned = pinned
        self._alias = alias
        self._named: NamedTables | None = None  # the catalog, if the table was found by name
        self._shown: DataFrame | None = None  # the last result of toDF, whose columns may be used in conditions

    # -- finding and creating tables

    @classmethod
    def forPath(
        cls,
        sparkSession: SparkSession,
        path: str,
        hadoopConf: Mapping[str, str] | None = None,
        *,
        version: int | None = None,
        timestamp: str | int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        allowed_prefixes: Iterable[str] = (),
    ) -> Self:
        """The table at a path, at its newest or an older version.

        Args:
            sparkSession: The session.
            path: A local path or URI; ``delta.`path` `` is accepted, too.
            hadoopConf: Keys and endpoint of S3, as Hadoop settings.
            version: Show the table at this version, and refuse changes.
            timestamp: Likewise, at this time: text (in the session's time zone if it names none), or milliseconds since the
                epoch.
            storage_options: Storage options in fsspec's names, for every kind of storage.
            allowed_prefixes: As of ``DeltaLog.for_table``.

        Raises:
            TableNotFoundError: There is no table at the path.
            InvalidStatementError: A setting or the time is invalid.
        """
        options = storage_options or hadoop_options(hadoopConf)
        log = table_log(sparkSession, path_or_identifier(path), options, allowed_prefixes)
        if version is None and timestamp is None:
            if not log.exists():
                raise TableNotFoundError(table=log.table_uri)
            return cls(sparkSession, log)
        at = milliseconds(sparkSession, timestamp, statement="forPath")
        return cls(sparkSession, log, pinned=log.snapshot(version, at))

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> Self:
        """The table at ``delta.`path` ``, or ``schema.table`` in the catalog named by ``AIRFLOW_DELTA_CATALOG``.

        Raises:
            TableNameUnsupportedError: A catalog name is given, but the environment names no catalog.
            TableNameNotFoundError: The catalog has no table of this name.

        Methods that change columns or properties (``merge``, ``restoreToVersion`` and so on) publish the table in the catalog
        after their commit; a failure of that is a ``NotPublishedWarning``.
        """
        table = cls.forPath(sparkSession, path_of(sparkSession, tableOrViewName))
        is_path = path_or_identifier(tableOrViewName) != tableOrViewName
        named = None if is_path else NamedTables.of_environment(sparkSession)
        if named is not None:
            named.find(name_parts(TableName.parse(tableOrViewName)))
            table._named = named  # noqa: SLF001 - one of us
        return table

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether there is a Delta table at this path."""
        return table_log(sparkSession, path_or_identifier(identifier)).exists()

    @classmethod
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | SparkStruct | None = None,
        collectStats: bool = True,
    ) -> Self:
        """Convert a directory of Parquet files to a Delta table, in place; an existing Delta table is left unchanged.

        Args:
            sparkSession: The session.
            identifier: ``parquet.`path` ``.
            partitionSchema: The partition columns in the order of the directory levels, as DDL or as Spark type. Timestamps in
                the directory names that have no zone are taken in the session's.
            collectStats: Whether to take statistics from the Parquet footers.
        """
        path = path_in(identifier, format_name="parquet")
        types = _partition_types(partitionSchema)
        DeltaLog.convert(path, partition_schema=types, statistics=collectStats, time_zone=time_zone(sparkSession))
        return cls.forPath(sparkSession, path)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder for a new table, which must not exist yet."""
        return cls._builder(sparkSession, "error")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder for a new table; an existing table is left unchanged."""
        return cls._builder(sparkSession, "ignore")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder for a table that replaces an existing one; the history stays."""
        return cls._builder(sparkSession, "replace", must_exist=True)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder for a table that is created, or replaces an existing one."""
        return cls._builder(sparkSession, "replace")

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: CreateMode, *, must_exist: bool = False) -> DeltaTableBuilder:
        session = spark or SparkSession.active()
        return DeltaTableBuilder(spark=session, opened=cls, mode=mode, must_exist=must_exist)

    # -- rows

    def toDF(self, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The rows of the table.

        Args:
            columns: Names of the columns to return, in this order; all when None.
            where: Condition in Spark SQL; files without matching rows are skipped.
        """
        shown = read_table(self._spark, self._snapshot(), columns, where, is_newest=self._pinned is None)
        if columns is None and where is None:
            self._shown = shown
        return shown.alias(self._alias) if self._alias else shown

    def alias(self, aliasName: str) -> DeltaTable:
        """The table with an alias, for use in conditions and values."""
        named = type(self)(self._spark, self._log, pinned=self._pinned, alias=aliasName)
        named._shown, named._named = self._shown, self._named  # noqa: SLF001 - one of us
        return named

    def delete(self, condition: Expression | None = None) -> None:
        """Delete the rows for which the condition is true; all rows when None. Makes one commit."""
        log = self._changeable("DELETE")
        where = None if condition is None else as_text(condition, self._names())
        delete(self._spark, log, DeleteStatement(table=log.table_uri, where=where))

    def update(self, condition: Expression | None = None, set: Assignments | None = None) -> None:
        """Update the rows for which the condition is true; all rows when None. Makes one commit."""
        log, names = self._changeable("UPDATE"), self._names()
        assignments = assigned(set, names, target=names, statement="update", argument="set")
        where = None if condition is None else as_text(condition, names)
        update(self._spark, log, UpdateStatement(table=log.table_uri, assignments=assignments, where=where))

    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """Start a MERGE into the table; add clauses to the result, then call ``execute``.

        If the source reads this table itself (through ``toDF`` or ``format("delta")``), it is bound to the version that was
        read: ``execute`` raises ``CommitConflictError`` if what it read has changed since. Rows of a version that was requested
        explicitly, ``forPath(..., version=3).toDF()``, are used as they are.

        Args:
            source: The source rows, preferably with an alias.
            condition: The condition by which rows match.
        """
        log, target, rows = self._changeable("MERGE"), self._names(), Names.of_source(source)
        return DeltaMergeBuilder(
            spark=self._spark,
            log=log,
            source=source,
            condition=as_text(condition, target.beside(rows), is_join=True),
            target_names=target,
            source_names=rows,
            published=self._publish,
        )

    # -- history

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first."""
        return history_rows(self._spark, self._log.history(limit))

    def detail(self) -> DataFrame:
        """The details of the table, in one row.

        ``lastModified`` is the timestamp of the version, as in the history: the in-commit timestamp if the table has them.
        Delta-Spark 4.4 shows when the commit file was written, a few milliseconds later.
        """
        return detail_row(self._spark, self._snapshot())

    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore the table to a version; returns one row with metrics."""
        return self._restored(version, None)

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the table to a time, given as text (in the session's time zone if it names none); one row with metrics."""
        at = milliseconds(self._spark, timestamp, statement="RESTORE")
        return self._restored(None, at)

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Clone the table to the path ``target``, by copying its files or by sharing them.

        Args:
            target: A path, or ``delta.`path` ``.
            isShallow: Whether both tables share the files; otherwise they are copied, so that the clone is independent.
            replace: Whether to replace a table at the target; a shallow clone can only replace an empty table.
            properties: Table properties that override this table's.
        """
        return self._cloned(target, self._snapshot(), is_shallow=isShallow, replace=replace, properties=properties)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """As ``clone``, for an older version."""
        snapshot = self._log.snapshot(version)
        return self._cloned(target, snapshot, is_shallow=isShallow, replace=replace, properties=properties)

    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """As ``clone``, for the version of a time."""
        snapshot = self._log.snapshot(timestamp=milliseconds(self._spark, timestamp, statement="CLONE"))
        return self._cloned(target, snapshot, is_shallow=isShallow, replace=replace, properties=properties)

    # -- maintenance

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete the files that no version within the retention needs; returns an empty DataFrame.

        A retention below the table's own is refused, unless ``spark.databricks.delta.retentionDurationCheck.enabled`` is set to
        false in the session.
        """
        log = self._changeable("VACUUM")
        log.vacuum(retentionHours, enforce_retention=checks_retention(self._spark), executor=SparkVacuumExecutor(self._spark))
        return self._spark.createDataFrame([], SparkStruct([]))

    def optimize(self) -> DeltaOptimizeBuilder:
        """Start an OPTIMIZE: call ``where`` if needed, then ``executeCompaction`` or ``executeZOrderBy``."""
        return DeltaOptimizeBuilder(spark=self._spark, log=self._changeable("OPTIMIZE"))

    def generate(self, mode: str) -> None:
        """Write manifests (``symlink_format_manifest``): lists of the table's files, for Presto and Athena."""
        if mode.lower() != _MANIFEST:
            raise InvalidStatementError(statement="GENERATE", detail=f"the mode {mode!r} is not {_MANIFEST}")
        self._log.generate_manifests()

    # -- protocol

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Require at least these protocol versions."""
        self._changeable("UPGRADE PROTOCOL").alter().upgrade_protocol(readerVersion, writerVersion)
        self._publish()

    def addFeatureSupport(self, featureName: str) -> None:
        """Add a table feature to the protocol."""
        self._changeable("ADD FEATURE").alter().add_feature(featureName)
        self._publish()

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Drop a feature from the protocol, after removing every trace of it.

        Args:
            featureName: Name of the feature.
            truncateHistory: Whether to delete older versions that need it.
        """
        self._changeable("DROP FEATURE").drop_feature(featureName, truncate_history=bool(truncateHistory))
        self._publish()

    # -- internal

    def _snapshot(self) -> Snapshot:
        return self._pinned or self._log.refresh()

    def _changeable(self, statement: str) -> DeltaLog:
        if self._pinned is not None:
            detail = f"{self._log.table_uri} was opened at version {self._pinned.version}, which takes no change"
            raise InvalidStatementError(statement=statement, detail=detail)
        return self._log

    def _publish(self) -> None:
        """Update the catalog in which the table was found. Never raises, as the commit has been made."""
        if self._named is not None:
            self._named.publish(self._log)

    def _restored(self, version: int | None, timestamp: int | None) -> DataFrame:
        done = self._changeable("RESTORE").restore(version, timestamp)
        self._publish()
        return restore_row(self._spark, done)

    def _names(self) -> Names:
        """What expressions may name; includes columns of the last ``toDF`` as long as the table keeps that schema."""
        schema = to_spark(without_column_mapping(self._log.refresh().schema))
        if self._shown is None or self._shown.schema.simpleString() != schema.simpleString():
            self._shown = self._spark.createDataFrame([], schema)
        return Names.of_target(self._shown, self._alias)

    def _cloned(
        self, target: str, snapshot: Snapshot, *, is_shallow: bool, replace: bool, properties: Mapping[str, str] | None
    ) -> DeltaTable:
        path = path_or_identifier(target)
        is_beside = scheme_of(path) == scheme_of(self._log.table_uri)
        options = self._log.store.storage_options if is_beside else None  # of this table; they apply to the clone, too
        made = table_log(self._spark, path, options or None, self._log.store.allowed_prefixes)
        mode: CreateMode = "replace" if replace else "error"
        copier = SparkFileCopier(self._spark)
        clone = self._log.shallow_clone if is_shallow else partial(self._log.deep_clone, copier=copier)
        clone(made, version=snapshot.version, mode=mode, properties=properties)
        return type(self)(self._spark, made)


def _partition_types(schema: str | SparkStruct | None) -> dict[str, str] | None:
    if schema is None:
        return None
    columns = parse_struct(schema) if isinstance(schema, str) else from_spark(schema)
    return {field.name: str(field.type) for field in columns.fields}
