"""A table for scripts: the methods of delta-spark's Python ``DeltaTable``, by their names, over the operations here."""

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
from airflow_delta.spark.statement.times import milliseconds

# ruff: noqa: N802, N803, A002, FBT001, FBT002 - the names and the order of arguments are delta-spark's

_MANIFEST = "symlink_format_manifest"


@checks_arguments
class DeltaTable:
    """One table, found by its path. Make it with ``forPath``, or with one of the builders.

    Every method reads the newest version when it is called; a table that was requested by ``version`` or ``timestamp`` stays at
    that version, and takes no change. What a method raises beyond its own text is what its operation raises.
    """

    def __init__(self, spark: SparkSession, log: DeltaLog, *, pinned: Snapshot | None = None, alias: str | None = None) -> None:
        self._spark = spark
        self._log = log
        self._pinned = pinned
        self._alias = alias
        self._named: NamedTables | None = None  # where the table was found by its name
        self._shown: DataFrame | None = None  # the last answer of toDF: columns taken from it may stand in conditions

    # -- finding and making tables

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
        """The table at a path, as it is or as it was.

        Args:
            sparkSession: The session.
            path: A local path or URI; ``delta.`path` `` too.
            hadoopConf: Keys and endpoint of S3 as Hadoop names them.
            version: Show the table at this version, and change nothing.
            timestamp: Likewise, at this time: text in the session's zone where it names none, or milliseconds.
            storage_options: As fsspec names them, for every kind of storage.
            allowed_prefixes: As of ``DeltaLog.for_table``.

        Raises:
            TableNotFoundError: There is no table.
            InvalidStatementError: A setting or time that is not known.
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
        """The table that ``delta.`path` `` names, or ``schema.table`` in the catalog that ``AIRFLOW_DELTA_CATALOG`` names.

        Raises:
            TableNameUnsupportedError: It is a name, and the environment names no catalog.
            TableNameNotFoundError: The catalog has no table of the name.

        What changes columns or properties (``merge``, ``restoreToVersion`` and so on) publishes the table behind its commit;
        where that fails, there is a ``NotPublishedWarning``.
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
        """Whether a table lies at this path."""
        return table_log(sparkSession, path_or_identifier(identifier)).exists()

    @classmethod
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | SparkStruct | None = None,
        collectStats: bool = True,
    ) -> Self:
        """Make a directory of Parquet files a table, in place; a table stays as it is.

        Args:
            sparkSession: The session.
            identifier: ``parquet.`path` ``.
            partitionSchema: The partition columns in the order of the directories, as DDL or as Spark's type.
            collectStats: Whether to take statistics from the footers.
        """
        path = path_in(identifier, format_name="parquet")
        DeltaLog.convert(path, partition_schema=_partition_types(partitionSchema), statistics=collectStats)
        return cls.forPath(sparkSession, path)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Build a table; it must not be there yet."""
        return cls._builder(sparkSession, "error")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Build a table; one that is there stays as it is."""
        return cls._builder(sparkSession, "ignore")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Build a table that takes the place of another one, which must be there; its history stays."""
        return cls._builder(sparkSession, "replace", must_exist=True)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Build a table; it takes the place of one that is there."""
        return cls._builder(sparkSession, "replace")

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: CreateMode, *, must_exist: bool = False) -> DeltaTableBuilder:
        session = spark or SparkSession.active()
        return DeltaTableBuilder(spark=session, opened=cls, mode=mode, must_exist=must_exist)

    # -- rows

    def toDF(self, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The rows.

        Args:
            columns: Names of the columns wanted, in this order; all when None.
            where: Spark SQL; files that hold no such row are not opened.
        """
        shown = read_table(self._spark, self._snapshot(), columns, where, is_newest=self._pinned is None)
        if columns is None and where is None:
            self._shown = shown
        return shown.alias(self._alias) if self._alias else shown

    def alias(self, aliasName: str) -> DeltaTable:
        """The table under another name, for conditions and values."""
        named = type(self)(self._spark, self._log, pinned=self._pinned, alias=aliasName)
        named._shown, named._named = self._shown, self._named  # noqa: SLF001 - one of us
        return named

    def delete(self, condition: Expression | None = None) -> None:
        """Delete the rows for which the condition holds; all of them when None. One commit."""
        log = self._changeable("DELETE")
        where = None if condition is None else as_text(condition, self._names())
        delete(self._spark, log, DeleteStatement(table=log.table_uri, where=where))

    def update(self, condition: Expression | None = None, set: Assignments | None = None) -> None:
        """Give columns new values in the rows for which the condition holds; in all of them when None. One commit."""
        log, names = self._changeable("UPDATE"), self._names()
        assignments = assigned(set, names, target=names, statement="update", argument="set")
        where = None if condition is None else as_text(condition, names)
        update(self._spark, log, UpdateStatement(table=log.table_uri, assignments=assignments, where=where))

    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """Merge rows into the table: the clauses follow, and ``execute``.

        Rows that read this table itself (of ``toDF``, or ``format("delta")``) are bound to the version they were read from:
        ``execute`` raises ``CommitConflictError`` when the table has changed since in what they read. Rows of a version that
        was requested, ``forPath(..., version=3).toDF()``, are taken as they are.

        Args:
            source: The rows, best with an alias.
            condition: Which rows match.
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
        """What the table is, in one row.

        ``lastModified`` is the time of the version, as the history has it: the in-commit timestamp where the table has these.
        Delta-Spark 4.4 shows when the commit's file was written, some milliseconds later.
        """
        return detail_row(self._spark, self._snapshot())

    def restoreToVersion(self, version: int) -> DataFrame:
        """Make the table as it was at a version; one row with the metrics."""
        return self._restored(version, None)

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Make the table as it was at a time, text in the session's zone where it names none."""
        at = milliseconds(self._spark, timestamp, statement="RESTORE")
        return self._restored(None, at)

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Make a new table at the path ``target``: on copies of this one's files, or on the files themselves.

        Args:
            target: A path, or ``delta.`path` ``.
            isShallow: Whether the two tables share their files; otherwise they are copied, and the new one outlives this one.
            replace: Whether a table at the target is replaced; by a shallow clone only an empty one.
            properties: Table properties that differ from this table's.
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
        """As ``clone``, of an older version."""
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
        """As ``clone``, of the version of this time."""
        snapshot = self._log.snapshot(timestamp=milliseconds(self._spark, timestamp, statement="CLONE"))
        return self._cloned(target, snapshot, is_shallow=isShallow, replace=replace, properties=properties)

    # -- maintenance

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete the files that no version younger than the retention needs; the answer is empty.

        A retention below the table's own is refused, as ``spark.databricks.delta.retentionDurationCheck.enabled`` has it; set
        that to false in the session to be believed.
        """
        log = self._changeable("VACUUM")
        log.vacuum(retentionHours, enforce_retention=checks_retention(self._spark), executor=SparkVacuumExecutor(self._spark))
        return self._spark.createDataFrame([], SparkStruct([]))

    def optimize(self) -> DeltaOptimizeBuilder:
        """Lay the rows out anew: ``where``, then ``executeCompaction`` or ``executeZOrderBy``."""
        return DeltaOptimizeBuilder(spark=self._spark, log=self._changeable("OPTIMIZE"))

    def generate(self, mode: str) -> None:
        """Write the files that ``symlink_format_manifest`` stands for: lists of the table's files, for Presto and Athena."""
        if mode.lower() != _MANIFEST:
            raise InvalidStatementError(statement="GENERATE", detail=f"the mode {mode!r} is not {_MANIFEST}")
        self._log.generate_manifests()

    # -- protocol

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Require these versions of the protocol at least."""
        self._changeable("UPGRADE PROTOCOL").alter().upgrade_protocol(readerVersion, writerVersion)
        self._publish()

    def addFeatureSupport(self, featureName: str) -> None:
        """Support a table feature from now on."""
        self._changeable("ADD FEATURE").alter().add_feature(featureName)
        self._publish()

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Take a feature from the protocol, once nothing uses it.

        Args:
            featureName: The feature.
            truncateHistory: Whether older versions that need it are deleted.
        """
        self._changeable("DROP FEATURE").drop_feature(featureName, truncate_history=bool(truncateHistory))
        self._publish()

    # -- inside

    def _snapshot(self) -> Snapshot:
        return self._pinned or self._log.refresh()

    def _changeable(self, statement: str) -> DeltaLog:
        if self._pinned is not None:
            detail = f"{self._log.table_uri} was opened at version {self._pinned.version}, which takes no change"
            raise InvalidStatementError(statement=statement, detail=detail)
        return self._log

    def _publish(self) -> None:
        """Make the catalog in which the table was found say what it is now. Never raises: the commit stands."""
        if self._named is not None:
            self._named.publish(self._log)

    def _restored(self, version: int | None, timestamp: int | None) -> DataFrame:
        done = self._changeable("RESTORE").restore(version, timestamp)
        self._publish()
        return restore_row(self._spark, done)

    def _names(self) -> Names:
        """What expressions may name; columns of the last ``toDF`` too, while the table still has that schema."""
        schema = to_spark(without_column_mapping(self._log.refresh().schema))
        if self._shown is None or self._shown.schema.simpleString() != schema.simpleString():
            self._shown = self._spark.createDataFrame([], schema)
        return Names.of_target(self._shown, self._alias)

    def _cloned(
        self, target: str, snapshot: Snapshot, *, is_shallow: bool, replace: bool, properties: Mapping[str, str] | None
    ) -> DeltaTable:
        path = path_or_identifier(target)
        is_beside = scheme_of(path) == scheme_of(self._log.table_uri)
        options = self._log.store.storage_options if is_beside else None  # of this table, which are the clone's too
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
