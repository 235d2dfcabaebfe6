"""Append, overwrite, replace a range, replace the table: one statement, one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import NO_CHANGES, Origin, SetTransaction
from airflow_delta.core.data_files.changed_rows import CHANGE_TYPE, INSERT
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CommitConflictError,
    ConstraintViolatedError,
    TableExistsError,
    TableNotFoundError,
)
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, WriteMode, WriteStatement
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.core.wording import counted
from airflow_delta.spark.constraints.identity import identity_tags, only_numbers_differ
from airflow_delta.spark.constraints.violations import as_stored, example_of
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.scan import SCANNED_COLUMNS, read_files
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.statement.application_progress import progress
from airflow_delta.spark.statement.conflict_retry import Conflicts, Steps, WriteConflict, retry_on_conflict
from airflow_delta.spark.statement.conform import conform_to_schema, named_by_position
from airflow_delta.spark.statement.current_time import StatementTime
from airflow_delta.spark.statement.expectations import check_expectations
from airflow_delta.spark.statement.outcome import result_of, with_sources
from airflow_delta.spark.statement.sources import OpenSource, Pin, open_source
from airflow_delta.spark.statement.staged_rows import StagedRows, write_change_rows, write_rows
from airflow_delta.spark.statement.steps import log_step, size_of
from airflow_delta.spark.statement.target_reads import TargetReads
from airflow_delta.spark.write.file_sizes import balanced, rows_per_file
from airflow_delta.spark.write.history import metrics_of, operation_of
from airflow_delta.spark.write.replaced_files import ReplacedFiles, outside, plan_replacement, range_of
from airflow_delta.spark.write.target import Target

_OUTSIDE, _OUTSIDER = "__outside", "__outsider"


class Load(Protocol):
    """Rows that the table takes only once: the commit that adds them records where they came from."""

    @property
    def operation(self) -> Operation:
        """The operation as the history shows it."""
        ...

    @property
    def observed(self) -> Mapping[str, Column]:
        """Aggregates to compute over the rows, by names of metrics."""
        ...

    @property
    def metrics(self) -> Mapping[str, int]:
        """Further metrics of the commit."""
        ...

    def open(self, spark: SparkSession) -> OpenSource:
        """The rows. Raises as ``open_source``."""
        ...

    def progress(self, transaction: OptimisticTransaction) -> SetTransaction:
        """The ``txn`` action that the commit sets to record the load."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRun:
    """What stays the same while the statement runs.

    Attributes:
        areas: Deletes the directory of staged rows at the end of the attempt that staged them, or of the statement.
        load: Provides the rows instead of the statement's source.
    """

    spark: SparkSession
    log: DeltaLog
    statement: WriteStatement
    origin: Origin
    areas: ExitStack
    load: Load | None = None

    @classmethod
    @contextmanager
    def begin(cls, spark: SparkSession, log: DeltaLog, statement: WriteStatement, origin: Origin | None) -> Iterator[WriteRun]:
        """The run of a statement; what it has staged and not committed is deleted at its end."""
        origin = origin or Origin()
        if statement.user_metadata is not None:
            origin = replace(origin, user_metadata=statement.user_metadata)
        with ExitStack() as areas:
            yield cls(spark=spark, log=log, statement=statement, origin=origin, areas=areas)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedWrite:
    """The statement's rows, written to files that are kept while attempts conflict.

    Attributes:
        target: The table before and after the next attempt.
        rows: The rows, in their files.
        staging: Where these files are.
        reads: What the rows, or the checks on them, read of the table.
        pins: The versions that the source was read from.
    """

    target: Target
    rows: StagedRows
    staging: StagingArea
    reads: TargetReads
    pins: tuple[Pin, ...]


def write(
    spark: SparkSession,
    log: DeltaLog,
    statement: WriteStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Write the rows of the statement's source to its table, in one commit.

    The rows are computed and staged once. After a conflict only the files to remove are determined again; so a replaced range
    contains exactly these rows afterwards, whatever concurrent commits wrote to it. Rows that are computed from the table
    itself (see ``target_reads``) are computed again in that case.

    Args:
        spark: The session.
        log: The table's log; the table need not exist.
        statement: The statement.
        origin: The task run that executes the statement; a commit with its token counts as this statement's.
        start_version: As of ``retry_on_conflict``.

    Raises:
        TableExistsError: The mode is ``create``, and the table exists.
        SchemaMismatchError: The rows, the partitioning or the clustering do not fit the table.
        ConstraintViolatedError: A row violates a constraint of the table, or lies outside of the replaced range.
        InvalidPredicateError: ``replace_where`` cannot be analyzed, or does not fit the table.
        InvalidTablePropertyError: A property of the new table does not exist, or its value is invalid.
        ExpectationFailedError: An expectation on the rows does not hold.
        CommitConflictError: A concurrent change does not allow a retry, or there were too many conflicts.
        DeltaError: As reading the source and the table raise it. In all cases nothing is committed, and no file is left.
    """
    with WriteRun.begin(spark, log, _at_one_time(spark, log, statement), origin) as run:
        return retry_on_conflict(log, write_steps(run), origin=run.origin, start_version=start_version)


def _at_one_time(spark: SparkSession, log: DeltaLog, statement: WriteStatement) -> WriteStatement:
    """The statement with current-time functions fixed, so that the range is the same for rows written and rows deleted."""
    if statement.replace_where is None:
        return statement
    time = StatementTime(spark, lambda: log.refresh().schema.names if log.exists() else ())
    return replace(statement, replace_where=time.fixed(statement.replace_where))


def write_steps(run: WriteRun) -> Steps[Snapshot | None, StagedWrite]:
    """The steps of the statement."""
    return Steps(
        name="WRITE",
        read=lambda: run.log.refresh() if run.log.exists() else None,
        prepare=partial(_stage, run),
        attempt=partial(_commit, run),
        after_conflict=partial(_after_conflict, run.statement.mode),
        txn=run.statement.txn,
    )


def _stage(run: WriteRun, snapshot: Snapshot | None, conflicts: Conflicts) -> StagedWrite:
    """Compute the rows for a version, write and check them."""
    run.areas.close()  # a source that reads the table's directory must not find files staged by an earlier attempt
    log, statement = run.log, run.statement
    reads = TargetReads(spark=run.spark, snapshot=snapshot, is_retry=bool(conflicts))
    source = open_source(run.spark, statement.source, target=snapshot) if run.load is None else run.load.open(run.spark)
    if statement.by_position:
        source = replace(source, frame=_in_position(source.frame, snapshot, log.table_uri, may_add=statement.merge_schema))
    reads.look_into(source.frame)
    target = Target.of(log, statement, snapshot, source.columns(log.table_uri))
    _check_range(run, target)
    with RowCache(log.store) as cache:
        rows = conform_to_schema(source.frame, target.schema, table=log.table_uri, cache=cache)
        target = replace(target, marks=rows.marks)
        staging = run.areas.enter_context(StagingArea(log.store))
        staged = _write_rows(run, target, rows.frame, staging)
    _check_expectations(run, target, staged, source, reads)
    return StagedWrite(target=target, rows=staged, staging=staging, reads=reads, pins=source.pins)


def _in_position(frame: DataFrame, snapshot: Snapshot | None, table: str, *, may_add: bool) -> DataFrame:
    """The rows with the table's column names, assigned by position."""
    if snapshot is None:
        raise TableNotFoundError(table=table)
    return named_by_position(frame, snapshot.schema, table=table, may_add=may_add)


def _after_conflict(
    mode: WriteMode, staged: StagedWrite, conflict: WriteConflict, newest: Snapshot | None
) -> StagedWrite | None:
    """The staged rows, if they are also valid for the newest version; None if they must be computed again.

    That is the case if they were computed from the table itself, if a concurrent commit has assigned the same identity values,
    or if one has created the table with another definition.

    Raises:
        CommitConflictError: The table's definition was changed.
        TableExistsError: The statement was to create the table.
    """
    if isinstance(conflict, TableExistsError) and (mode is WriteMode.CREATE or newest is None):
        raise conflict
    target = staged.target.at(newest) if newest is not None else None
    if target is not None:
        return None if staged.reads else replace(staged, target=target)
    numbered = staged.target.snapshot if staged.target.marks else None
    is_renumbered = numbered and newest and only_numbers_differ(numbered.metadata, newest.metadata)
    if is_renumbered or isinstance(conflict, TableExistsError):
        return None
    raise conflict


def _check_range(run: WriteRun, target: Target) -> None:
    """Return if the replaced range fits the table; checked before any row is computed."""
    if run.statement.replace_where is not None and target.snapshot is not None:
        range_of(run.spark, target.snapshot, run.statement.replace_where)


def _write_rows(run: WriteRun, target: Target, frame: DataFrame, staging: StagingArea) -> StagedRows:
    """Write the rows to files; each row must be inside of the range that it replaces.

    Spark: ``DELTA_REPLACE_WHERE_MISMATCH``.
    """
    where, table, metadata = run.statement.replace_where, run.log.table_uri, target.metadata
    rows = balanced(frame if where is None else as_stored(frame, metadata), metadata)
    observed = {}
    if where is not None:
        is_outside = outside(run.spark, target.schema, where, table=table)
        observed = {_OUTSIDE: F.count_if(is_outside), _OUTSIDER: example_of([is_outside], target.schema.names)}
    observed |= dict(run.load.observed) if run.load else {}
    most_rows = rows_per_file(metadata, target.snapshot)
    partitions = materialized_columns(target.schema, target.definition.protocol, metadata)
    staged = write_rows(rows, staging, metadata, observed=observed, extra=partitions, rows_per_file=most_rows)
    files = counted(len(staged.adds), "file")
    log_step("Wrote %s into %s (%s)", counted(staged.rows, "row"), files, size_of(staged.adds))
    if outsiders := staged.observed.get(_OUTSIDE):
        shown = staged.observed[_OUTSIDER]
        raise ConstraintViolatedError(table=table, constraint=f"replace_where {where}", rows=outsiders, example=shown)
    return staged


def _check_expectations(run: WriteRun, target: Target, staged: StagedRows, source: OpenSource, reads: TargetReads) -> None:
    if run.statement.expect:
        files = read_files(run.spark, staged.adds.select(SCANNED_COLUMNS), TableFiles.to_be(run.log.store, target.metadata))
        check_expectations(run.spark, run.statement.expect, files, source.views, table=run.log.table_uri, reads=reads)


def _commit(run: WriteRun, snapshot: Snapshot | None, staged: StagedWrite, conflicts: Conflicts) -> OperationResult:
    """Determine what the staged rows replace in this version, and commit both."""
    del snapshot  # the target's snapshot is used instead
    log, statement, target, rows = run.log, run.statement, staged.target, staged.rows
    with StagingArea(log.store) as aside:  # files of the replacement belong to this attempt only
        transaction = target.begin(log)
        staged.reads.record(transaction)
        replaced = plan_replacement(run.spark, log, statement, transaction, new_files=rows.adds, staging=aside)
        metrics = metrics_of(statement, rows, replaced)
        operation = operation_of(statement, target)
        if run.load is not None:
            metrics |= {**run.load.metrics, **{name: rows.observed[name] for name in run.load.observed}}
            operation = run.load.operation
        if statement.dry_run:
            return _dry_run_result(log, staged, operation.name, metrics)
        changes = _write_changes(run, target, rows, replaced, aside)
        loaded = () if run.load is None else (run.load.progress(transaction),)
        staged.staging.keep()
        aside.keep()
        try:
            commit = transaction.commit(
                adds=pa.concat_tables([rows.adds, replaced.adds]),
                removes=replaced.removes(log.clock()),
                changes=changes,
                transactions=(*progress(transaction, statement.txn, log.clock()), *loaded),
                domains=target.domains,
                operation=operation,
                metrics=metrics,
                tags=identity_tags(target.snapshot.metadata if target.snapshot else None, transaction.metadata),
                origin=with_sources(run.origin, staged.pins),
                allow_empty=True,
            )
        except (CommitConflictError, TableExistsError):
            staged.staging.release()
            raise
        staged.staging.settle(unused=commit.already_committed)
        aside.settle(unused=commit.already_committed)
        return result_of(log.table_uri, commit, metrics, conflicts)


def _write_changes(run: WriteRun, target: Target, rows: StagedRows, replaced: ReplacedFiles, aside: StagingArea) -> pa.Table:
    """Write change data files (``CHANGE_FILE``) for the new rows; needed if the replacement has some."""
    deleted = NO_CHANGES if replaced.rewritten is None else replaced.rewritten.changes
    if not len(deleted):
        return NO_CHANGES
    new = read_files(run.spark, rows.adds.select(SCANNED_COLUMNS), TableFiles.to_be(run.log.store, target.metadata))
    inserted = write_change_rows(new.withColumn(CHANGE_TYPE, F.lit(INSERT)), aside, target.metadata)
    return pa.concat_tables([deleted, inserted])


def _dry_run_result(log: DeltaLog, staged: StagedWrite, operation: str, metrics: Mapping[str, int]) -> OperationResult:
    """The result of a dry run: the commit that it would make."""
    version = staged.target.read_version
    return OperationResult(
        table=log.table_uri,
        version=version,
        read_version=version,
        operation=operation,
        committed=False,
        metrics=metrics,
        sources=tuple(pin.to_json() for pin in staged.pins),
    )
