"""Append, overwrite, replace a range: one statement, one commit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.actions import NO_ADDS, NO_REMOVES, Metadata, Origin, removes_of
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import (
    CommitConflictError,
    ConstraintViolatedError,
    InvalidPredicateError,
    SchemaMismatchError,
    TableExistsError,
)
from airflow_delta.core.predicate import ALL, Expression, evaluate_files, is_exact, is_partition_only, parse_predicate
from airflow_delta.core.schema import StructType, parse_schema
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, WriteMode, WriteStatement
from airflow_delta.core.transaction.commit_result import redone
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.transaction.optimistic_transaction import OptimisticTransaction
from airflow_delta.spark.expectations import check_expectations
from airflow_delta.spark.fitting import fitted
from airflow_delta.spark.native_write import StagedRows, write_rows
from airflow_delta.spark.outcome import earlier_result, result_of, with_sources
from airflow_delta.spark.scan import read_files
from airflow_delta.spark.session import time_zone
from airflow_delta.spark.sources import Pin, open_source
from airflow_delta.spark.spark_schema import from_spark
from airflow_delta.spark.staging import StagingArea
from airflow_delta.spark.supported import check_rows_writable
from airflow_delta.spark.write.new_table import new_table

MAX_REDOS = 20
"""How often the commit is prepared again after a conflict; then the conflict is the task's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The table as the statement finds it, or will make it.

    Attributes:
        snapshot: The version to commit on; None when the commit makes the table.
        replaced: Which rows make room for the new ones; None unless the statement replaces a range.
    """

    snapshot: Snapshot | None
    metadata: Metadata
    replaced: Expression | None

    @property
    def schema(self) -> StructType:
        return parse_schema(self.metadata.schema_string)

    def at(self, newest: Snapshot) -> _Target | None:
        """The same target at a later version; None when the staged files may not fit that any more."""
        known, found = self.metadata, newest.metadata
        fits = (known.schema_string, known.partition_columns) == (found.schema_string, found.partition_columns)
        return replace(self, snapshot=newest, metadata=found) if fits else None


def write(
    spark: SparkSession,
    log: DeltaLog,
    statement: WriteStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Write the rows of the statement's source into its table, as one commit.

    The rows are computed and staged once. When another writer gets in between, only what the commit removes is found anew; so a
    replaced range holds exactly these rows afterwards, whoever wrote into it meanwhile.

    Args:
        spark: The session.
        log: The table's log; the table need not exist.
        statement: What to write.
        origin: The run that asks for it.
        start_version: Version of the table when the origin's token was minted.

    Raises:
        SchemaMismatchError: The rows or the partition columns do not fit the table.
        ConstraintViolatedError: A row breaks NOT NULL, or lies outside the replaced range.
        InvalidPredicateError: ``replace_where`` is not decided by partition columns.
        ExpectationFailedError: A check on the rows failed.
        CommitConflictError: Another writer changed the table so that this cannot be redone, or too often.
        DeltaError: As reading the source and the table raise it. In all cases nothing is committed, and no file left.
    """
    found = earlier_result(log, origin or Origin(), start_version)
    if found is not None:
        return found
    source = open_source(spark, statement.source)
    target = _target(log, statement, from_spark(source.frame.schema), time_zone(spark))
    rows = fitted(source.frame, target.schema, table=log.table_uri)
    with StagingArea(log.table_uri) as staging:
        staged = write_rows(rows, staging, target.metadata)
        _check_range(target, staged, statement)
        if statement.expect:
            files = read_files(spark, log.table_uri, staged.adds, target.schema, target.metadata.partition_columns)
            check_expectations(spark, statement.expect, files, source.views, table=log.table_uri)
        if statement.dry_run:
            return _checked(log, statement, target, staged=staged, pins=source.pins)
        origin = with_sources(origin, source.pins)
        return _commit(log, statement, target, staged=staged, staging=staging, origin=origin)


def _target(log: DeltaLog, statement: WriteStatement, rows: StructType, session_time_zone: str) -> _Target:
    snapshot = log.refresh() if log.exists() else None
    if snapshot is None:
        metadata = new_table(statement, rows, created=log.clock())
    else:
        metadata = snapshot.metadata
        check_rows_writable(log.table_uri, snapshot.protocol, metadata)
        _check_partitioning(log.table_uri, statement.partition_by, metadata.partition_columns)
    target = _Target(snapshot=snapshot, metadata=metadata, replaced=None)
    if statement.replace_where is None:
        return target
    predicate = parse_predicate(statement.replace_where, target.schema, log.table_uri, time_zone=session_time_zone)
    for is_right, detail in (
        (is_partition_only(predicate, metadata.partition_columns), "it names columns that do not partition the table"),
        (is_exact(predicate), "it cannot be decided from partition values alone"),
    ):
        if not is_right:
            raise InvalidPredicateError(table=log.table_uri, predicate=statement.replace_where, detail=detail)
    return replace(target, replaced=predicate)


def _check_partitioning(table: str, asked: tuple[str, ...], found: tuple[str, ...]) -> None:
    if asked and [name.casefold() for name in asked] != [name.casefold() for name in found]:
        difference = f"the table is partitioned by ({', '.join(found)}), not by ({', '.join(asked)})"
        raise SchemaMismatchError(table=table, differences=(difference,))


def _check_range(target: _Target, staged: StagedRows, statement: WriteStatement) -> None:
    """Return if every staged row lies in the range that it is to replace. Spark: ``DELTA_REPLACE_WHERE_MISMATCH``."""
    if target.replaced is None:
        return
    verdicts = evaluate_files(target.replaced, staged.adds, target.schema, target.metadata.partition_columns)
    outside = staged.adds.filter(pc.not_equal(verdicts, ALL))
    if len(outside):
        rows = sum(json.loads(stats)["numRecords"] for stats in outside["stats"].to_pylist())
        constraint = f"replace_where {statement.replace_where}"
        raise ConstraintViolatedError(table=statement.table, constraint=constraint, rows=rows)


def _commit(
    log: DeltaLog, statement: WriteStatement, target: _Target, *, staged: StagedRows, staging: StagingArea, origin: Origin
) -> OperationResult:
    lost: list[dict[str, Any]] = []
    while True:
        transaction, removed = _begin(log, statement, target)
        metrics = _metrics(statement, staged, removed)
        staging.entrust()
        try:
            commit = transaction.commit(
                adds=staged.adds,
                removes=removes_of(removed, deletion_timestamp=log.clock(), data_change=True) if len(removed) else NO_REMOVES,
                operation=_operation(statement, target),
                metrics=metrics,
                origin=origin,
                allow_empty=True,
            )
        except (CommitConflictError, TableExistsError) as error:
            lost.append(_lost_to(error))
            newest = log.refresh()
            # Behind the winner a lost twin of this very task may have committed.
            twin = earlier_result(log, origin, transaction.read_version)
            if twin is not None:
                staging.discard()
                return replace(twin, conflicts=tuple(lost), attempts=1 + len(lost))
            again = target.at(newest)
            if again is None or len(lost) > MAX_REDOS:
                raise
            target = again
            continue
        if commit.already_committed:
            staging.discard()
        return result_of(log.table_uri, commit, metrics, lost)


def _begin(log: DeltaLog, statement: WriteStatement, target: _Target) -> tuple[OptimisticTransaction, pa.Table]:
    """A transaction, and the files whose rows make room (they are read, in terms of the conflict rules)."""
    if target.snapshot is None:
        return log.create_transaction(target.metadata), NO_ADDS
    transaction = log.start_transaction(target.snapshot)
    match statement.mode:
        case WriteMode.APPEND:
            return transaction, NO_ADDS
        case WriteMode.OVERWRITE:
            return transaction, transaction.files()
        case WriteMode.REPLACE_WHERE:
            return transaction, transaction.files(target.replaced)


def _lost_to(error: CommitConflictError | TableExistsError) -> dict[str, Any]:
    if isinstance(error, CommitConflictError):
        return redone(error)
    return {"version": error.version, "operation": None, "rule": error.code, "job": None}


def _operation(statement: WriteStatement, target: _Target) -> Operation:
    partition_by = list(target.metadata.partition_columns)
    if target.snapshot is None:
        made = {
            "isManaged": "false",
            "partitionBy": partition_by,
            "clusterBy": [],
            "properties": dict(target.metadata.configuration),
        }
        return Operation(name="CREATE TABLE AS SELECT", parameters=made)
    mode = "Append" if statement.mode is WriteMode.APPEND else "Overwrite"
    return Operation(name="WRITE", parameters={"mode": mode, "partitionBy": partition_by, "predicate": statement.replace_where})


def _metrics(statement: WriteStatement, staged: StagedRows, removed: pa.Table) -> dict[str, int]:
    metrics = {"numFiles": len(staged.adds), "numOutputRows": staged.rows, "numOutputBytes": staged.size}
    if statement.mode is WriteMode.APPEND:
        return metrics
    return {**metrics, "numRemovedFiles": len(removed), "numRemovedBytes": pc.sum(removed["size"]).as_py() or 0}


def _checked(
    log: DeltaLog, statement: WriteStatement, target: _Target, *, staged: StagedRows, pins: Iterable[Pin]
) -> OperationResult:
    """What a dry run tells: the commit that would have been."""
    version = -1 if target.snapshot is None else target.snapshot.version
    _, removed = _begin(log, statement, target)
    return OperationResult(
        table=log.table_uri,
        version=version,
        read_version=version,
        operation=_operation(statement, target).name,
        committed=False,
        metrics=_metrics(statement, staged, removed),
        sources=tuple(each.to_json() for each in pins),
    )
