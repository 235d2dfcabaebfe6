"""Append, overwrite, replace a range, replace the table: one statement, one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import NO_CHANGES, Origin
from airflow_delta.core.data_files.changed_rows import CHANGE_TYPE, INSERT
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CommitConflictError,
    ConstraintViolatedError,
    InvalidSchemaError,
    SchemaMismatchError,
    TableExistsError,
)
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, WriteMode, WriteStatement
from airflow_delta.core.transaction.commit_result import retried_conflict
from airflow_delta.spark.constraints.identity import identity_tags, only_numbers_differ
from airflow_delta.spark.constraints.violations import as_stored, example_of
from airflow_delta.spark.io.scan import SCANNED_COLUMNS, read_files
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.schema_conversion import from_spark
from airflow_delta.spark.session import session_settings
from airflow_delta.spark.statement.application_progress import done_before, progress
from airflow_delta.spark.statement.conform import conform_to_schema
from airflow_delta.spark.statement.expectations import check_expectations
from airflow_delta.spark.statement.outcome import earlier_result, result_of, with_sources
from airflow_delta.spark.statement.sources import OpenSource, open_source
from airflow_delta.spark.statement.staged_rows import StagedRows, write_change_rows, write_rows
from airflow_delta.spark.statement.target_reads import TargetReads, at_version_read
from airflow_delta.spark.write.file_sizes import balanced, size_settings
from airflow_delta.spark.write.history import metrics_of, operation_of
from airflow_delta.spark.write.replaced_files import ReplacedFiles, outside, plan_replacement, range_of
from airflow_delta.spark.write.target import Target

MAX_REDOS = 20
"""How often the commit is prepared again after a conflict; then the conflict is the task's."""

_OUTSIDE, _OUTSIDER = "__outside", "__outsider"


class _RowsOutdatedError(Exception):
    """The rows of a try have to be computed anew: a winner has given their numbers, or changed what they were computed from."""

    def __init__(self, conflict: CommitConflictError | TableExistsError) -> None:
        super().__init__(conflict)
        self.conflict = conflict if isinstance(conflict, CommitConflictError) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """What does not change while the statement runs."""

    spark: SparkSession
    log: DeltaLog
    statement: WriteStatement
    origin: Origin


def write(
    spark: SparkSession,
    log: DeltaLog,
    statement: WriteStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Write the rows of the statement's source into its table, as one commit.

    The rows are computed and staged once. After a conflict only what the commit removes is found again; so a replaced range
    holds exactly these rows afterwards, whatever concurrent commits wrote into it. Rows that are computed from the table itself
    (see ``target_reads``) are computed again then.

    Args:
        spark: The session.
        log: The table's log; the table need not exist.
        statement: What to write.
        origin: The run that asks for it.
        start_version: Version of the table when the origin's token was minted.

    Raises:
        TableExistsError: The mode is ``create``, and there is a table.
        SchemaMismatchError: The rows, the partitioning or the clustering do not fit the table.
        ConstraintViolatedError: A row violates a constraint of the table, or lies outside the replaced range.
        InvalidPredicateError: ``replace_where`` means nothing, or does not fit the table.
        InvalidTablePropertyError: A property of the new table does not exist or cannot have its value.
        ExpectationFailedError: A check on the rows failed.
        CommitConflictError: Another writer changed the table so that this cannot be retried, or too often.
        DeltaError: As reading the source and the table raise it. In all cases nothing is committed, and no file left.
    """
    origin = origin or Origin()
    found = earlier_result(log, origin, start_version)
    if found is not None:
        return found
    if statement.user_metadata is not None:
        origin = replace(origin, user_metadata=statement.user_metadata)
    run = _Write(spark=spark, log=log, statement=statement, origin=origin)
    try:
        return _up_to_date(run)
    except TableExistsError:
        if statement.mode is WriteMode.CREATE or not log.exists():
            raise
        return _up_to_date(run)  # a concurrent commit created it, with another definition than it would have here


def _up_to_date(run: _Write) -> OperationResult:
    """The result with rows that no faster writer has made wrong: where one has, they are computed and written anew."""
    log = run.log
    lost: list[Mapping[str, Any]] = []
    conflict: CommitConflictError | None = None
    while True:
        try:
            if not log.exists():
                return _written(run, None, lost)
            return at_version_read(log, log.refresh(), lambda at: _written(run, at, lost), lost=conflict)
        except _RowsOutdatedError as outdated:
            conflict = outdated.conflict


def _written(run: _Write, snapshot: Snapshot | None, lost: list[Mapping[str, Any]]) -> OperationResult:
    """One try on a version; ``lost`` are the winners that made earlier ones wrong, and gets further ones.

    Raises:
        _RowsOutdatedError: Somebody was faster, and the rows are wrong now.
        ReadAtOtherVersionError: The rows were read from another version of the table.
    """
    log, statement = run.log, run.statement
    if snapshot is not None and (done := done_before(snapshot, "WRITE", statement.txn)) is not None:
        return done
    reads = TargetReads(spark=run.spark, snapshot=snapshot, is_redo=bool(lost))
    source = open_source(run.spark, statement.source, target=snapshot)
    reads.look_into(source.frame)
    target = Target.of(log, statement, snapshot, _columns(source.frame, log.table_uri))
    _check_range(run, target)
    rows = conform_to_schema(source.frame, target.schema, table=log.table_uri)
    target = replace(target, marks=rows.marks)
    with StagingArea(log.store) as staging:
        staged = _staged(run, target, rows.frame, staging)
        _check_expectations(run, target, staged, source, reads)
        run = replace(run, origin=with_sources(run.origin, source.pins))
        result = _committed(run, target, staged, staging, lost=lost, reads=reads)
        return replace(result, sources=tuple(each.to_json() for each in source.pins)) if statement.dry_run else result


def _columns(frame: DataFrame, table: str) -> StructType:
    """The columns of the rows."""
    try:
        return from_spark(frame.schema)
    except InvalidSchemaError as error:
        raise SchemaMismatchError(table=table, differences=(f"in the source: {error.detail}",)) from error


def _check_range(run: _Write, target: Target) -> None:
    """Return if the replaced range means something, before any row is computed."""
    if run.statement.replace_where is not None and target.snapshot is not None:
        range_of(run.spark, target.snapshot, run.statement.replace_where)


def _staged(run: _Write, target: Target, frame: DataFrame, staging: StagingArea) -> StagedRows:
    """The rows in their files, each of them inside the range that it is to replace.

    Spark: ``DELTA_REPLACE_WHERE_MISMATCH``.
    """
    where, table, metadata = run.statement.replace_where, run.log.table_uri, target.metadata
    rows = balanced(frame if where is None else as_stored(frame, metadata), metadata)
    observed = {}
    if where is not None:
        is_outside = outside(run.spark, target.schema, where, table=table)
        observed = {_OUTSIDE: F.count_if(is_outside), _OUTSIDER: example_of([is_outside], target.schema.names)}
    with session_settings(run.spark, size_settings(metadata, target.snapshot)):
        staged = write_rows(rows, staging, metadata, observed=observed)
    if outsiders := staged.observed.get(_OUTSIDE):
        shown = staged.observed[_OUTSIDER]
        raise ConstraintViolatedError(table=table, constraint=f"replace_where {where}", rows=outsiders, example=shown)
    return staged


def _check_expectations(run: _Write, target: Target, staged: StagedRows, source: OpenSource, reads: TargetReads) -> None:
    if run.statement.expect:
        files = read_files(run.spark, staged.adds.select(SCANNED_COLUMNS), TableFiles.to_be(run.log.store, target.metadata))
        check_expectations(run.spark, run.statement.expect, files, source.views, table=run.log.table_uri, reads=reads)


def _committed(
    run: _Write,
    target: Target,
    staged: StagedRows,
    staging: StagingArea,
    *,
    lost: list[Mapping[str, Any]],
    reads: TargetReads,
) -> OperationResult:
    log, statement = run.log, run.statement
    while True:
        # What the replacement writes belongs to this attempt only.
        with StagingArea(log.store) as aside:
            transaction = target.begin(log)
            reads.record(transaction)
            replaced = plan_replacement(run.spark, log, statement, transaction, new_files=staged.adds, staging=aside)
            metrics = metrics_of(statement, staged, replaced)
            operation = operation_of(statement, target)
            if statement.dry_run:
                return _checked(log, target, operation.name, metrics)
            changes = _recorded(run, target, staged, replaced, aside)
            staging.keep()
            aside.keep()
            try:
                commit = transaction.commit(
                    adds=pa.concat_tables([staged.adds, replaced.adds]),
                    removes=replaced.removes(log.clock()),
                    changes=changes,
                    transactions=progress(transaction, statement.txn, log.clock()),
                    domains=target.domains,
                    operation=operation,
                    metrics=metrics,
                    tags=identity_tags(target.snapshot.metadata if target.snapshot else None, transaction.metadata),
                    origin=run.origin,
                    allow_empty=True,
                )
            except (CommitConflictError, TableExistsError) as error:
                aside.discard()
                staging.release()
                lost.append(_lost_to(error))
                newest = log.refresh()
                # Behind the winner a lost twin of this very task may have committed.
                done = earlier_result(log, run.origin, transaction.read_version) or done_before(newest, "WRITE", statement.txn)
                if done is not None:
                    staging.abandon()
                    return replace(done, conflicts=tuple(lost), attempts=1 + len(lost))
                again = target.at(newest)
                if len(lost) > MAX_REDOS:
                    raise
                if again is None:
                    before = target.snapshot.metadata if target.snapshot is not None and target.marks else newest.metadata
                    if only_numbers_differ(before, newest.metadata):
                        raise _RowsOutdatedError(error) from error
                    raise
                if reads:
                    raise _RowsOutdatedError(error) from error
                target = again
                continue
            if commit.already_committed:
                staging.abandon()
                aside.abandon()
            return result_of(log.table_uri, commit, metrics, lost)


def _recorded(run: _Write, target: Target, staged: StagedRows, replaced: ReplacedFiles, aside: StagingArea) -> pa.Table:
    """The files that say what changes (``CHANGE_FILE``): where rows of a file go and others stay, of the new rows too."""
    gone = NO_CHANGES if replaced.rewritten is None else replaced.rewritten.changes
    if not len(gone):
        return NO_CHANGES
    rows = read_files(run.spark, staged.adds.select(SCANNED_COLUMNS), TableFiles.to_be(run.log.store, target.metadata))
    come = write_change_rows(rows.withColumn(CHANGE_TYPE, F.lit(INSERT)), aside, target.metadata)
    return pa.concat_tables([gone, come])


def _lost_to(error: CommitConflictError | TableExistsError) -> Mapping[str, Any]:
    if isinstance(error, CommitConflictError):
        return retried_conflict(error)
    return {"version": error.version, "operation": None, "rule": error.code, "job": None}


def _checked(log: DeltaLog, target: Target, operation: str, metrics: Mapping[str, int]) -> OperationResult:
    """The result of a dry run: the commit that it would make."""
    version = target.read_version
    return OperationResult(
        table=log.table_uri, version=version, read_version=version, operation=operation, committed=False, metrics=metrics
    )
