"""UPDATE: rows take new values, where they lie; those whose partition changes are written there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import MatchedUpdate, OperationResult, UpdateStatement
from airflow_delta.spark.constraints.violations import row_rules
from airflow_delta.spark.dml.analysis import analyze, no_rows
from airflow_delta.spark.dml.clauses import bind_clauses
from airflow_delta.spark.dml.deletion_vectors import uses_deletion_vectors
from airflow_delta.spark.dml.selected_rows import RowChange, change_selected_rows
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.statement.conflict_retry import retry_on_conflict
from airflow_delta.spark.supported_features import check_rows_writable


def update(
    spark: SparkSession,
    log: DeltaLog,
    statement: UpdateStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Update the rows and commit it, or raise and leave the table as it is.

    Args:
        spark: The session.
        log: The table's log.
        statement: Which rows, and their new values.
        origin: Who asks; a commit with its token counts as this statement's.
        start_version: As of ``retry_on_conflict``.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: The condition does not fit the table.
        SchemaMismatchError: An assignment is to no column, or its value does not fit.
        ConstraintViolatedError: NULL in a column that is NOT NULL.
        ExpectationFailedError: A gate says no.
        CommitConflictError: Every attempt conflicted, or a concurrent commit changed the metadata or protocol.
    """

    def attempt(snapshot: Snapshot, conflicts: Sequence[Mapping[str, Any]]) -> OperationResult:
        table = snapshot.table_uri
        check_rows_writable(table, snapshot.protocol, snapshot.metadata)
        selection = Selection.of(spark, snapshot, statement.where)
        clauses = bind_clauses(
            [MatchedUpdate(assignments=statement.assignments)],
            snapshot.schema,
            snapshot.partition_columns,
            table=table,
            whole_rows=bool(statement.expect) or uses_deletion_vectors(snapshot),
            rules=row_rules(snapshot.metadata, snapshot.schema).values(),
        )
        change = RowChange(
            name="UPDATE",
            counter="numUpdatedRows",
            where=statement.where,
            clauses=analyze(clauses, snapshot.schema, matched=no_rows(spark, snapshot.schema), table=table),
            expect=statement.expect,
            dry_run=statement.dry_run,
            origin=origin or Origin(),
        )
        return change_selected_rows(spark, log, selection, change, conflicts)

    return retry_on_conflict(log, attempt, origin=origin, start_version=start_version)
