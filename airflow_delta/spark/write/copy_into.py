"""COPY INTO: loads the files below a path that were not loaded before, in one commit that also records them.

This is a write whose rows come from a search for new files; ``core.operations.loaded_files`` explains how and where the table
records loaded files. If another load commits first, the staged rows are kept unless that load took one of the same files; then
the search is repeated. So concurrent loads, or a retry while the first try is still running, load each file once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.operations.loaded_files import sweep_loaded_files
from airflow_delta.core.operations.new_files import FileChoice, find_new_files
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import CopyIntoStatement, FileSource, OperationResult, WriteStatement
from airflow_delta.core.statements.result import NO_TABLE
from airflow_delta.core.storage.table_uri import absolute
from airflow_delta.core.transaction.table_properties import deleted_file_retention
from airflow_delta.core.wording import counted
from airflow_delta.spark.hadoop.table_log import table_log, table_place
from airflow_delta.spark.statement.conflict_retry import Conflicts, Steps, WriteConflict, retry_on_conflict
from airflow_delta.spark.statement.steps import log_step, size_of
from airflow_delta.spark.write.file_load import OPERATION, FileLoad, remembered_files, typed_content_errors
from airflow_delta.spark.write.write import StagedWrite, WriteRun, write_steps

_LISTED = 100  # file names that a dry run lists


def copy_into(
    spark: SparkSession,
    log: DeltaLog,
    statement: CopyIntoStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Load the files below the statement's path that the table has not loaded yet, in one commit; none if all are loaded.

    In a dry run, ``details`` list the first hundred ``files`` that would be loaded.

    Args:
        spark: The session.
        log: The table's log; the table need not exist.
        statement: The statement.
        origin: The task run that executes the statement; a commit with its token counts as this statement's.
        start_version: As of ``retry_on_conflict``.

    Raises:
        LoadedFilesLostError: It is unknown which files were loaded before.
        InvalidStatementError: The path overlaps the table, or is that of a file.
        RelativePathError: The path is relative.
        SourceUnreadableError: Spark does not support the format, or cannot read the content of a file.
        SchemaMismatchError: The rows do not fit the table.
        As ``write``. In all cases nothing is committed.
    """
    absolute(statement.path, "no connection gives a root to the files of a COPY INTO")
    with WriteRun.begin(spark, log, _write_of(statement), origin) as run:
        if table_place(spark, statement.path).overlaps(table_place(spark, log.table_uri)):
            detail = f"the path {statement.path} overlaps the table {log.table_uri}, whose own files would be loaded"
            raise InvalidStatementError(statement=OPERATION, detail=detail)
        copy = _Copy(statement=statement, run=run)
        steps = Steps(
            name=OPERATION,
            read=write_steps(run).read,
            prepare=copy.prepare,
            attempt=copy.attempt,
            after_conflict=copy.after_conflict,
        )
        return retry_on_conflict(log, steps, origin=run.origin, start_version=start_version)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """The result of one search, and its rows.

    Attributes:
        load: The files found.
        steps: The steps that write their rows.
        staged: The rows; None if there is nothing to load.
    """

    load: FileLoad
    steps: Steps[Snapshot | None, StagedWrite]
    staged: StagedWrite | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Copy:
    """The statement while it runs; ``run`` writes what a search finds."""

    statement: CopyIntoStatement
    run: WriteRun

    def prepare(self, version: Snapshot | None, conflicts: Conflicts) -> _Prepared:
        """Search for new files, and stage their rows."""
        load = self._look(version)
        steps = write_steps(replace(self.run, load=load))
        with typed_content_errors():
            staged = steps.prepare(version, conflicts) if len(load.new.files) else None
        return _Prepared(load=load, steps=steps, staged=staged)

    def attempt(self, version: Snapshot | None, prepared: _Prepared, conflicts: Conflicts) -> OperationResult:
        """Commit the rows, together with the record of their files."""
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
            staged_for = deleted_file_retention(prepared.staged.target.metadata.configuration)  # upper bound
            sweep_loaded_files(log.store, load.named, log.clock(), keep_for=staged_for)
        return replace(result, details={**result.details, **self._details(load)})

    def after_conflict(self, prepared: _Prepared, conflict: WriteConflict, newest: Snapshot | None) -> _Prepared | None:
        """The staged rows; None if one of their files was loaded meanwhile."""
        if prepared.staged is None:
            return None
        kept = prepared.steps.after_conflict(prepared.staged, conflict, newest)
        if kept is None or (not self.statement.reload and prepared.load.is_known_in(newest)):
            return None
        return replace(prepared, staged=kept)

    def _look(self, version: Snapshot | None) -> FileLoad:
        spark, log, statement = self.run.spark, self.run.log, self.statement
        loaded = remembered_files(log, statement, version)
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
        if not new.are_any:
            _check_is_no_file(spark, statement.path)
        log_step("Files below %s: %s new (%s), %s known", statement.path, len(new.files), size_of(new.files), new.known)
        if new.waiting:
            log_step("Left for a later load: %s", counted(new.waiting, "new file"))
        if new.changed:
            changed = counted(new.changed, "known file")
            log_step("Changed since loaded, which reload=True loads again: %s", changed)
        return FileLoad(statement=statement, log=log, new=new, loaded=loaded, target=version)

    def _details(self, load: FileLoad) -> Mapping[str, Any]:
        return {"files": load.new.files["path"].slice(0, _LISTED).to_pylist()} if self.statement.dry_run else {}


def _write_of(statement: CopyIntoStatement) -> WriteStatement:
    return WriteStatement(
        table=statement.table,
        source=FileSource(statement.path, format=statement.format),  # whatever a search finds there
        partition_by=statement.partition_by,
        cluster_by=statement.cluster_by,
        merge_schema=statement.merge_schema,
        expect=statement.expect,
        properties=statement.properties,
        user_metadata=statement.user_metadata,
        dry_run=statement.dry_run,
    )


def _check_is_no_file(spark: SparkSession, path: str) -> None:
    """Raise ``InvalidStatementError`` if the path, below which nothing was found, is not a folder."""
    parent, _, name = path.rstrip("/").rpartition("/")
    is_file = bool(parent.rpartition("://")[2].strip("/")) and table_log(spark, parent).store.exists(name)
    if is_file or "*" in name:
        detail = f"the path must be that of a folder, found {path}; name the folder above it, and pattern={name!r}"
        raise InvalidStatementError(statement=OPERATION, detail=detail)
