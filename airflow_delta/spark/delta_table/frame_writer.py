"""Writes a DataFrame with the method names of ``df.write``, including what a data source ``format("delta")`` cannot do."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame

from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import OperationResult, SqlSource, WriteMode, WriteStatement
from airflow_delta.spark.arguments import OptionValue, checks_arguments, takes_only
from airflow_delta.spark.delta_table.identifiers import path_or_identifier
from airflow_delta.spark.delta_table.named_tables import NamedTables, name_parts
from airflow_delta.spark.delta_table.optimize_builder import names_in
from airflow_delta.spark.delta_table.session_settings import grows_schemas
from airflow_delta.spark.errors import TableNameUnsupportedError
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.session import temporary_views
from airflow_delta.spark.write.write import write

# ruff: noqa: N802 - the method names are Spark's

_MODES = {
    "append": WriteMode.APPEND,
    "overwrite": WriteMode.OVERWRITE,
    "error": WriteMode.CREATE,
    "errorifexists": WriteMode.CREATE,
    "default": WriteMode.CREATE,
    "ignore": WriteMode.CREATE,
}
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_PATH = "path"
_OPTIONS = (
    "mergeschema",
    "overwriteschema",
    "replacewhere",
    "partitionoverwritemode",
    "txnappid",
    "txnversion",
    "usermetadata",
    _PATH,
)


@takes_only
def delta_writer(
    frame: DataFrame, *, storage_options: Mapping[str, Any] | None = None, allowed_prefixes: Iterable[str] = ()
) -> DeltaFrameWriter:
    """Replaces ``frame.write``: ``delta_writer(frame).mode("append").save(path)``.

    Args:
        frame: The rows.
        storage_options: Storage options of the table, in fsspec's names.
        allowed_prefixes: As of ``DeltaLog.for_table``.
    """
    return DeltaFrameWriter(frame=frame, storage_options=storage_options, allowed_prefixes=tuple(allowed_prefixes))


@checks_arguments
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaFrameWriter:
    """Made by ``delta_writer``; each method except ``save`` and ``saveAsTable`` returns a new writer with one more setting.

    Attributes:
        frame: The rows.
        storage_options: Storage options of the table, in fsspec's names.
        allowed_prefixes: As of ``DeltaLog.for_table``.
        save_mode: Spark's save mode.
        options_given: Options by name in lower case; names that begin with ``delta.`` are table properties, kept as they are.
        partition_columns: Names of the partition columns.
        clustering_columns: Names of the clustering columns.
    """

    frame: DataFrame
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    allowed_prefixes: tuple[str, ...] = ()
    save_mode: str = "errorifexists"
    options_given: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    clustering_columns: tuple[str, ...] = ()

    def format(self, source: str) -> DeltaFrameWriter:
        """Set the format, which must be ``delta``."""
        if source.lower() != "delta":
            raise InvalidStatementError(statement="WRITE", detail=f"delta_writer writes the format delta, not {source!r}")
        return self

    def mode(self, saveMode: str) -> DeltaFrameWriter:  # noqa: N803 - Spark's name
        """Set the save mode: ``append``, ``overwrite``, ``error`` (the default) or ``ignore``."""
        if saveMode.lower() not in _MODES:
            raise InvalidStatementError(statement="WRITE", detail=f"the mode {saveMode!r} is none of {', '.join(_MODES)}")
        return replace(self, save_mode=saveMode.lower())

    def option(self, key: str, value: OptionValue) -> DeltaFrameWriter:
        """Set ``mergeSchema``, ``overwriteSchema``, ``replaceWhere``, ``partitionOverwriteMode`` or ``txnAppId``.

        Also ``txnVersion``, ``userMetadata``, ``path`` (for ``saveAsTable``), and table properties (``delta.…``) for a write
        that creates the table.
        """
        name = key if key.startswith("delta.") else key.lower()
        if name not in _OPTIONS and not name.startswith("delta."):
            raise InvalidStatementError(statement="WRITE", detail=f"there is no option {key}")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return replace(self, options_given={**self.options_given, name: text})

    def options(self, **options: OptionValue) -> DeltaFrameWriter:
        """Set several options."""
        writer = self
        for key, value in options.items():
            writer = writer.option(key, value)
        return writer

    def partitionBy(self, *cols: str | Iterable[str]) -> DeltaFrameWriter:
        """Partition the table by these columns."""
        return replace(self, partition_columns=names_in(cols))

    def clusterBy(self, *cols: str | Iterable[str]) -> DeltaFrameWriter:
        """Cluster the table by these columns."""
        return replace(self, clustering_columns=names_in(cols))

    def saveAsTable(self, name: str) -> OperationResult:
        """Save at ``delta.`path` ``, or as ``schema.table`` in the catalog named by ``AIRFLOW_DELTA_CATALOG``.

        A new table is created at the option ``path``, else below the location of its schema. After the commit it is published
        in the catalog, see ``details["catalog"]`` of the result; a failure of that is a ``NotPublishedWarning``.

        Raises:
            TableNameUnsupportedError: A catalog name is given, but the environment names no catalog.
            TableNameTakenError: The name belongs to a table elsewhere, or of another format.
            InvalidStatementError: The location of a new table is unknown.
        """
        path, given = path_or_identifier(name), self.options_given.get(_PATH)
        if path != name:
            return self.save(path)
        names = NamedTables.of_environment(self.frame.sparkSession)
        if names is None:
            raise TableNameUnsupportedError(name=name)
        placed = names.place(name_parts(TableName.parse(name)), given)
        assert placed is not None  # noqa: S101 - it has two parts or three
        result = self.save(placed)
        return names.publish(self._log(placed), result) or result

    def save(self, path: str) -> OperationResult:
        """Write the rows to the table at the path, in one commit; returns its result.

        If the rows read the same table, they are bound to the version that was read, as described for ``DeltaTable.merge``.

        Raises:
            CommitConflictError: What the rows read of the table has changed since.
            DeltaError: As ``write`` raises it.
        """
        given = self.options_given.get(_PATH, path)
        if given.rstrip("/") != path.rstrip("/"):
            raise InvalidStatementError(statement="WRITE", detail=f"the option path is {given}, and save was given {path}")
        log = self._log(path)
        if self.save_mode == "ignore" and log.exists():
            version = log.snapshot().version
            return OperationResult(
                table=log.table_uri, version=version, read_version=version, operation="WRITE", committed=False
            )
        view = f"written_rows_{uuid.uuid4().hex}"
        statement = self._statement(log.table_uri, view)
        with temporary_views(self.frame.sparkSession, {view: self.frame}):
            return write(self.frame.sparkSession, log, statement)

    def _log(self, path: str) -> DeltaLog:
        return table_log(self.frame.sparkSession, path, self.storage_options, self.allowed_prefixes)

    def _statement(self, table: str, view: str) -> WriteStatement:
        given = self.options_given
        merges, overwrites = (_flag(given, name) for name in ("mergeschema", "overwriteschema"))
        if merges is None:
            may_evolve = self._write_mode() is not WriteMode.CREATE and not overwrites
            merges = may_evolve and grows_schemas(self.frame.sparkSession)
        return WriteStatement(
            table=table,
            source=SqlSource(f"TABLE {view}"),
            mode=self._write_mode(),
            replace_where=given.get("replacewhere"),
            partition_by=self.partition_columns,
            cluster_by=self.clustering_columns,
            merge_schema=merges,
            overwrite_schema=bool(overwrites),
            properties={name: value for name, value in given.items() if name.startswith("delta.")},
            txn=_txn(given),
            user_metadata=given.get("usermetadata"),
        )

    def _write_mode(self) -> WriteMode:
        """The mode of the statement: an overwrite may be limited to a range, or to partitions (also by a session setting)."""
        mode = _MODES[self.save_mode]
        of_session = self.frame.sparkSession.conf.get(_OVERWRITE_MODE, "static")
        requested = str(self.options_given.get("partitionoverwritemode", of_session)).lower()
        if requested not in ("static", "dynamic"):
            detail = f"partitionOverwriteMode is {requested!r}, neither static nor dynamic"
            raise InvalidStatementError(statement="WRITE", detail=detail)
        if mode is not WriteMode.OVERWRITE:
            return mode
        if "replacewhere" in self.options_given:
            return WriteMode.REPLACE_WHERE
        return WriteMode.DYNAMIC_OVERWRITE if requested == "dynamic" else mode


def _flag(options: Mapping[str, str], name: str) -> bool | None:
    """The option as a boolean; None if it is not set."""
    text = options.get(name, "").lower()
    if text not in ("true", "false", ""):
        raise InvalidStatementError(statement="WRITE", detail=f"{name} is {text!r}, neither true nor false")
    return text == "true" if text else None


def _txn(options: Mapping[str, str]) -> tuple[str, int] | None:
    application, number = options.get("txnappid"), options.get("txnversion")
    if application is None and number is None:
        return None
    if application is None or number is None or not number.isdecimal():
        raise InvalidStatementError(statement="WRITE", detail="txnAppId and a number as txnVersion go together")
    return application, int(number)
