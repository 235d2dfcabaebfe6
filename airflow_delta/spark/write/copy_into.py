"""COPY INTO: the files below a path that were not loaded before, as one commit that also remembers them.

A write whose rows come from one look at the path: ``core.operations.loaded_files`` has how the table remembers its files, and
why there. When another load commits first, what was staged is kept if that load took none of these files; else the look is
repeated. So two loads at once, or a retry beside a live orphan, load each file once.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import Origin, SetTransaction
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError, LoadedFilesLostError
from airflow_delta.core.operations.loaded_files import (
    APP_ID,
    LoadedFiles,
    read_loaded_files,
    sweep_loaded_files,
    write_loaded_files,
)
from airflow_delta.core.operations.new_files import FileChoice, NewFiles, find_new_files
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import CopyIntoStatement, FileSource, OperationResult, WriteStatement
from airflow_delta.core.statements.copy_into import TEXT_FORMATS
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.table_uri import absolute
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.spark.hadoop.table_log import table_log, table_place
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.io.jvm_scan import listing_session
from airflow_delta.spark.jvm import analyzed, in_session
from airflow_delta.spark.schema_conversion import quoted
from airflow_delta.spark.statement.conflict_retry import Conflicts, Steps, WriteConflict, retry_on_conflict
from airflow_delta.spark.statement.sources import OpenSource, readable
from airflow_delta.spark.statement.steps import log_step, size_of
from airflow_delta.spark.write.write import StagedWrite, WriteRun, write_steps

OPERATION = "COPY INTO"
RESCUED_ROWS = "numRescuedRows"

_LISTED = 100  # names that a dry run shows


def copy_into(
    spark: SparkSession,
    log: DeltaLog,
    statement: CopyIntoStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Load the files below the statement's path that the table has not loaded yet, as one commit; none where there are none.

    The ``details`` of a dry run list ``files`` that it would load, the first hundred of them.

    Args:
        spark: The session.
        log: The table's log; the table need not exist.
        statement: What to load.
        origin: The run that executes the statement; a commit with its token counts as this statement's.
        start_version: As of ``retry_on_conflict``.

    Raises:
        LoadedFilesLostError: What was loaded before cannot be known.
        InvalidStatementError: The path overlaps the table.
        RelativePathError: The path is relative.
        SourceUnreadableError: Spark does not know the format, or a file is gone.
        SchemaMismatchError: The rows do not fit the table.
        As ``write``. In all cases nothing is committed.
    """
    origin = origin or Origin()
    absolute(statement.path, "no connection gives a root to the files of a COPY INTO")
    if statement.user_metadata is not None:
        origin = replace(origin, user_metadata=statement.user_metadata)
    if table_place(spark, statement.path).overlaps(table_place(spark, log.table_uri)):
        detail = f"the path {statement.path} overlaps the table {log.table_uri}, whose own files would be loaded"
        raise InvalidStatementError(statement=OPERATION, detail=detail)
    with ExitStack() as areas:
        run = WriteRun(spark=spark, log=log, statement=_write_of(statement), origin=origin, areas=areas)
        copy = _Copy(statement=statement, run=run)
        steps = Steps(
            name=OPERATION,
            read=write_steps(run).read,
            prepare=copy.prepare,
            attempt=copy.attempt,
            after_conflict=copy.after_conflict,
        )
        return retry_on_conflict(log, steps, origin=origin, start_version=start_version)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """One look, and its rows.

    Attributes:
        load: What was found.
        steps: The write of these rows.
        staged: The rows; None where there is nothing to load.
    """

    load: FileLoad
    steps: Steps[Snapshot | None, StagedWrite]
    staged: StagedWrite | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Copy:
    """The statement while it runs; ``run`` is the write of what a look finds."""

    statement: CopyIntoStatement
    run: WriteRun

    def prepare(self, version: Snapshot | None, conflicts: Conflicts) -> _Prepared:
        """Look for new files, and stage their rows."""
        load = self._look(version)
        steps = write_steps(replace(self.run, load=load))
        staged = steps.prepare(version, conflicts) if len(load.new.files) else None
        return _Prepared(load=load, steps=steps, staged=staged)

    def attempt(self, version: Snapshot | None, prepared: _Prepared, conflicts: Conflicts) -> OperationResult:
        """Commit the rows, and with them what they came from."""
        load, log = prepared.load, self.run.log
        if prepared.staged is None:
            found = NO_TABLE if version is None else version.version
            return OperationResult(
                table=log.table_uri,
                version=found,
                read_version=found,
                operation=OPERATION,
                committed=False,
                metrics=load.metrics,
                conflicts=tuple(conflicts),
                attempts=1 + len(conflicts),
                details=self._details(load),
            )
        result = prepared.steps.attempt(version, prepared.staged, conflicts)
        if result.committed:
            sweep_loaded_files(log.store, load.named, log.clock())
        return replace(result, details=self._details(load))

    def after_conflict(self, prepared: _Prepared, conflict: WriteConflict, newest: Snapshot | None) -> _Prepared | None:
        """What was staged, unless one of its files was loaded meanwhile."""
        if prepared.staged is None:
            return None
        kept = prepared.steps.after_conflict(prepared.staged, conflict, newest)
        if kept is None or (not self.statement.reload and prepared.load.is_known_in(newest)):
            return None
        return replace(prepared, staged=kept)

    def _look(self, version: Snapshot | None) -> FileLoad:
        spark, log, statement = self.run.spark, self.run.log, self.statement
        loaded = _remembered(log, statement, version)
        source, place = table_log(spark, statement.path).store, table_place(spark, statement.path)
        choice = FileChoice(
            pattern=statement.pattern,
            changed_before=log.clock() - round(1_000 * statement.min_age) if statement.min_age else None,
            max_files=statement.max_files,
            max_bytes=statement.max_bytes,
            look_back=statement.look_back,
            reload=statement.reload,
        )
        new = find_new_files(source, f"{place.volume}{place.path}", loaded, choice)
        log_step("Files below %s: %s new (%s), %s known", statement.path, len(new.files), size_of(new.files), new.known)
        if new.waiting:
            log_step("%s new files wait for a later load", new.waiting)
        if new.changed:
            log_step("%s known files have changed since they were loaded; reload=True loads them again", new.changed)
        return FileLoad(statement=statement, log=log, new=new, loaded=loaded)

    def _details(self, load: FileLoad) -> Mapping[str, Any]:
        return {"files": load.new.files["path"].slice(0, _LISTED).to_pylist()} if self.statement.dry_run else {}


@dataclass(slots=True, kw_only=True, eq=False)
class FileLoad:
    """The ``Load`` of the files that one look has found.

    Attributes:
        statement: What to load.
        log: The table's.
        new: What the look has found.
        loaded: What the table remembered when it was looked at.
        named: What commits before and after this load name.
    """

    statement: CopyIntoStatement
    log: DeltaLog
    new: NewFiles
    loaded: LoadedFiles
    named: tuple[LoadedFiles, ...] = field(default=())

    @property
    def operation(self) -> Operation:
        """What the history shows."""
        wanted = self.statement
        parameters = {"path": wanted.path, "format": wanted.format, "pattern": wanted.pattern, "reload": wanted.reload or None}
        return Operation(name=OPERATION, parameters=parameters)

    @property
    def observed(self) -> Mapping[str, Column]:
        """The rows that do not fit."""
        column = self.statement.rescued_column
        return {} if column is None else {RESCUED_ROWS: F.count(F.col(quoted(column)))}

    @property
    def metrics(self) -> Mapping[str, int]:
        """What the look has counted."""
        return {
            "numSourceFiles": len(self.new.files),
            "numSourceBytes": self.new.size,
            "numKnownFiles": self.new.known,
            "numChangedFiles": self.new.changed,
            "numWaitingFiles": self.new.waiting,
        }

    def open(self, spark: SparkSession) -> OpenSource:
        """The rows of the new files."""
        statement = self.statement
        options = dict(statement.options)
        if self.new.are_partitioned:
            options.setdefault("basePath", hadoop_uri(statement.path))
        else:  # also keeps Spark from reading all files once for each path that looks like a glob
            options["recursiveFileLookup"] = "true"
        if statement.format.lower() == "parquet" and statement.merge_schema:
            options.setdefault("mergeSchema", "true")
        if statement.rescued_column is not None:
            options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": statement.rescued_column}
        elif statement.format.lower() in TEXT_FORMATS:
            options.setdefault("mode", "FAILFAST")
        return OpenSource(frame=_read(spark, statement, self.new, options))

    def progress(self, transaction: OptimisticTransaction) -> SetTransaction:
        """Write down the files, beside those that the version remembers which is committed on."""
        head = transaction.transaction_version(APP_ID)
        is_newest = head == self.loaded.head
        before = self.loaded if is_newest else _remembered(self.log, self.statement, transaction.snapshot)
        now = self.log.clock()
        after = write_loaded_files(self.log.store, before, self.new.loaded_at(now))
        self.named = (before, after)
        if after.head is None:
            raise RuntimeError("a load that remembers nothing")
        return SetTransaction(app_id=APP_ID, version=after.head, last_updated=now)

    def is_known_in(self, newest: Snapshot | None) -> bool:
        """Whether a version remembers one of the files already."""
        known = read_loaded_files(self.log.store, newest).positions(self.new.places)
        return bool(pc.any(pc.is_valid(known)).as_py())


def _remembered(log: DeltaLog, statement: CopyIntoStatement, version: Snapshot | None) -> LoadedFiles:
    try:
        return read_loaded_files(log.store, version)
    except LoadedFilesLostError:
        if not statement.reload:
            raise
        return LoadedFiles()


def _write_of(statement: CopyIntoStatement) -> WriteStatement:
    return WriteStatement(
        table=statement.table,
        source=FileSource(statement.path, format=statement.format),  # whatever a look finds there
        partition_by=statement.partition_by,
        cluster_by=statement.cluster_by,
        merge_schema=statement.merge_schema,
        expect=statement.expect,
        properties=statement.properties,
        dry_run=statement.dry_run,
    )


def _read(spark: SparkSession, statement: CopyIntoStatement, new: NewFiles, options: Mapping[str, str]) -> DataFrame:
    root = hadoop_uri(statement.path).rstrip("/")
    uris = [f"{root}/{path}" for path in new.files["path"].to_pylist()]
    with readable(statement.path):
        reader = listing_session(spark, len(uris)).read.format(statement.format)
        reader = reader.options(**{**options, "__globPaths__": "false"})  # a path is a path, whatever signs it holds
        rescued = statement.rescued_column
        if rescued is None:
            reader = reader.schema(statement.schema) if statement.schema else reader
        elif statement.schema:
            reader = reader.schema(f"{statement.schema}, {quoted(rescued)} STRING")
        else:
            inferred = reader.load(uris).schema
            reader = reader.schema(inferred if rescued in inferred.names else inferred.add(rescued, "string"))
        rows = reader.load(uris)
        if statement.select:
            rows = rows.selectExpr(*statement.select)
        return in_session(analyzed(rows), spark)
