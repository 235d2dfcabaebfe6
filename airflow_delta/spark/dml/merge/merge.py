"""MERGE: the statement, retried on a fresh snapshot after a write conflict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import TRUE, Expression, conjunction, disjunction
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import MergeStatement, OperationResult
from airflow_delta.core.table_changes.definition import Definition
from airflow_delta.spark.constraints.column_references import SOURCE, unqualified
from airflow_delta.spark.constraints.violations import row_rules
from airflow_delta.spark.dml.analysis import analyze, no_rows
from airflow_delta.spark.dml.clauses import bind_clauses
from airflow_delta.spark.dml.deletion_vectors import uses_deletion_vectors
from airflow_delta.spark.dml.merge.attempt import MergePlan, run_attempt
from airflow_delta.spark.dml.merge.condition import parse_condition
from airflow_delta.spark.dml.merge.evolution import definition_after
from airflow_delta.spark.dml.merge.single_side import about_one_side
from airflow_delta.spark.dml.merge.source import materialize
from airflow_delta.spark.io.predicates import predicate_of
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.schema_conversion import from_spark
from airflow_delta.spark.statement.application_progress import done_before
from airflow_delta.spark.statement.conflict_retry import retry_on_conflict
from airflow_delta.spark.statement.outcome import with_sources
from airflow_delta.spark.statement.sources import open_source
from airflow_delta.spark.statement.target_reads import TargetReads
from airflow_delta.spark.supported_features import check_rows_writable


def merge(
    spark: SparkSession,
    log: DeltaLog,
    statement: MergeStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
    txn: tuple[str, int] | None = None,
) -> OperationResult:
    """Run a MERGE and commit it, or raise and leave the table as it is.

    A faster writer whose commit makes the result wrong costs another attempt inside: the match is done again on the newest
    version, with the rows of the source as they were the first time; with new ones where the source reads the target itself.

    Args:
        spark: The session.
        log: The target's log.
        statement: What to do.
        origin: Who asks; a commit with its token counts as this statement's.
        start_version: Version of the target when the token was minted, for the search for that commit; None is the version that
            the first attempt reads.
        txn: Name of an application and a number that grows with each of its statements: nothing is done where the table has
            this number, or a greater one, already.

    Raises:
        TableNotFoundError: The target does not exist; nothing is created.
        SchemaMismatchError: A clause asks for columns that are not there, or for values that do not fit their column.
        MultipleSourceRowsMatchedError: A target row has more than one match.
        ConstraintViolatedError: NULL in a column that is NOT NULL.
        ExpectationFailedError: A gate says no.
        CommitConflictError: Every attempt conflicted, or a concurrent commit changed the metadata or protocol.
    """
    plans: list[MergePlan] = []  # the last one counts: the source is asked once, while the executors keep its rows

    def attempt(snapshot: Snapshot, conflicts: Sequence[Mapping[str, Any]]) -> OperationResult:
        if (done := done_before(snapshot, "MERGE", txn)) is not None:
            return done
        reads = TargetReads(spark=spark, snapshot=snapshot, is_redo=bool(conflicts))
        if not plans or plans[-1].is_of_one_version or plans[-1].base != _defined(snapshot):
            plans.append(replace(_plan(spark, snapshot, statement, origin, reads), txn=txn))
        return run_attempt(spark, log, snapshot, plans[-1], conflicts=conflicts, reads=reads)

    return retry_on_conflict(log, attempt, origin=origin, start_version=start_version, on_cache_lost=plans.clear)


def _defined(snapshot: Snapshot) -> Definition:
    return Definition(metadata=snapshot.metadata, protocol=snapshot.protocol)


def _plan(
    spark: SparkSession, snapshot: Snapshot, statement: MergeStatement, origin: Origin | None, reads: TargetReads
) -> MergePlan:
    """Bind the statement to the target, and compute its source; nothing is computed when the statement does not fit."""
    table, schema = snapshot.table_uri, snapshot.schema
    check_rows_writable(table, snapshot.protocol, snapshot.metadata)
    opened = open_source(spark, statement.source, target=snapshot)
    after = definition_after(snapshot, statement, from_spark(opened.frame.schema))
    target_after = snapshot.redefined(after.metadata, after.protocol)
    check_rows_writable(table, after.protocol, after.metadata)
    clauses = bind_clauses(
        tuple(about_one_side(statement.clauses, schema, opened.frame.columns)),
        target_after.schema,
        snapshot.partition_columns,
        table=table,
        whole_rows=bool(statement.expect) or uses_deletion_vectors(snapshot),
        rules=row_rules(after.metadata, target_after.schema).values(),
        source_columns=opened.frame.columns,
        former=schema if statement.schema_evolution else None,
    )
    inserted = opened.frame.alias(SOURCE)
    target = no_rows(spark, schema)
    matched = inserted.join(target, sql_expression(statement.on), "left")
    clauses = analyze(
        clauses,
        target_after.schema,
        matched=matched,
        inserted=inserted,
        by_source=target,
        missing_as_null=statement.schema_evolution,
        table=table,
    )
    condition = parse_condition(statement.on, schema)
    source = materialize(opened.frame, condition, schema, reads)

    def predicate(text: str | None) -> Expression:
        try:
            return TRUE if text is None else predicate_of(spark, text, schema, table)
        except InvalidPredicateError:  # Spark has understood it: any row may fulfil it
            return TRUE

    may_match = conjunction([*map(predicate, condition.about_target()), source.matched])
    unmatched = disjunction(predicate(each.condition and unqualified(each.condition)) for each in clauses.by_source)
    return MergePlan(
        statement=statement,
        base=_defined(snapshot),
        after=after,
        clauses=clauses,
        source=source,
        predicate=disjunction([may_match, unmatched]),
        unmatched=unmatched,
        views=opened.views,
        origin=with_sources(origin, opened.pins),
        is_of_one_version=opened.has_target or bool(reads),
    )
