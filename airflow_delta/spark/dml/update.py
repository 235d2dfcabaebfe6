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
from airflow_delta.spark.dml.analysis import analyse, no_rows
from airflow_delta.spark.dml.clauses import bind_clauses
from airflow_delta.spark.dml.deletion_vectors import hides_rows
from airflow_delta.spark.dml.selected_rows import RowChange, change_selected_rows
from airflow_delta.spark.dml.selection import Selection
from airflow_delta.spark.statement.conflict_retry import in_rounds
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
        start_version: As of ``in_rounds``.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: The condition does not fit the table.
        SchemaMismatchError: An assignment is to no column, or its value does not fit.
        ConstraintViolatedError: NULL in a column that is NOT NULL.
        ExpectationFailedError: A gate says no.
        CommitConflictError: Others were faster in every round, or changed what the table is.
    """

    def once(snapshot: Snapshot, conflicts: Sequence[Mapping[str, Any]]) -> OperationResult:
        table = snapshot.table_uri
        check_rows_writable(table, snapshot.protocol, snapshot.metadata)
        selection = Selection.of(spark, snapshot, statement.where)
        clauses = bind_clauses(
            [MatchedUpdate(assignments=statement.assignments)],
            snapshot.schema,
            snapshot.partition_columns,
            table=table,
            whole_rows=bool(statement.expect) or hides_rows(snapshot),
            rules=row_rules(snapshot.metadata, snapshot.schema).values(),
        )
        change = RowChange(
            name="UPDATE",
            counter="numUpdatedRows",
            where=statement.where,
            clauses=analyse(clauses, snapshot.schema, matched=no_rows(spark, snapshot.schema), table=table),
            expect=statement.expect,
            dry_run=statement.dry_run,
            origin=origin or Origin(),
        )
        return change_selected_rows(spark, log, selection, change, conflicts)

    return in_rounds(log, once, origin=origin, start_version=start_version)
