"""The plan of a MERGE: the statement bound to its target, and its source, computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.predicate import TRUE, Expression, conjunction, disjunction
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import MergeStatement, Source, TableSource
from airflow_delta.core.table_changes.definition import Definition
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.wording import counted
from airflow_delta.spark.constraints.column_references import SOURCE, unqualified
from airflow_delta.spark.constraints.plain_expression import reads_one_row
from airflow_delta.spark.constraints.violations import row_rules
from airflow_delta.spark.dml.analysis import analyze, no_rows
from airflow_delta.spark.dml.clauses import BoundClauses, ClauseKind, bind_clauses
from airflow_delta.spark.dml.deletion_vectors import uses_deletion_vectors
from airflow_delta.spark.dml.merge.condition import parse_condition
from airflow_delta.spark.dml.merge.evolution import definition_after
from airflow_delta.spark.dml.merge.single_side import about_one_side
from airflow_delta.spark.dml.merge.source import MergeSource, materialize
from airflow_delta.spark.io.predicates import predicate_of_analyzed
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.jvm import analyzed
from airflow_delta.spark.statement.conflict_retry import Conflicts, WriteConflict, check_definition
from airflow_delta.spark.statement.current_time import StatementTime
from airflow_delta.spark.statement.outcome import with_sources
from airflow_delta.spark.statement.sources import open_source
from airflow_delta.spark.statement.steps import log_step
from airflow_delta.spark.statement.target_reads import TargetReads
from airflow_delta.spark.supported_features import check_names, check_rows_writable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergePlan:
    """What is computed once, and kept while attempts conflict.

    Attributes:
        base: The target's definition when the plan was made.
        after: Its definition after the commit.
        source: The materialized source, with its keys.
        predicate: Predicate that holds for every target row that can matter.
        unmatched: Predicate that holds for every target row that a clause may change although nothing matches it.
        views: Views that expectations see in addition to the staged rows.
        origin: The task run that executes the statement, with the versions read by the source.
        reads: What the source reads of the target.
        is_of_one_version: Whether the source, or a view, reads the target, so that another version requires another plan.
    """

    statement: MergeStatement
    base: Definition
    after: Definition
    clauses: BoundClauses
    source: MergeSource
    predicate: Expression
    unmatched: Expression
    views: Mapping[str, DataFrame]
    origin: Origin
    reads: tuple[Expression, ...]
    is_of_one_version: bool

    @property
    def evolves_schema(self) -> bool:
        """Whether the commit changes the target's definition."""
        return self.after.metadata != self.base.metadata

    @property
    def keys(self) -> pa.Table | None:
        """Keys, one of which every file that matters contains; None if unavailable, or if other rows matter, too."""
        return None if self.clauses.not_matched_by_source else self.source.keys

    def after_conflict(self, conflict: WriteConflict, newest: Snapshot) -> MergePlan | None:
        """The plan, if it also holds for this version; else None. Raises the conflict if the statement cannot be repeated."""
        check_definition(conflict, self.base.metadata, newest)
        return None if self.is_of_one_version or self.base != _definition(newest) else self

    def operation(self) -> Operation:
        """The operation as the history shows it."""
        parameters = {
            "predicate": [self.statement.on],
            "matchedPredicates": [clause.logged() for clause in self.clauses.about_matches],
            "notMatchedPredicates": [clause.logged() for clause in self.clauses.of(ClauseKind.INSERT)],
            "notMatchedBySourcePredicates": [clause.logged() for clause in self.clauses.not_matched_by_source],
        }
        return Operation(name="MERGE", parameters=parameters)


def plan_merge(
    snapshot: Snapshot,
    conflicts: Conflicts,
    *,
    spark: SparkSession,
    statement: MergeStatement,
    origin: Origin,
    cache: RowCache,
) -> MergePlan:
    """Bind the statement to the target, and compute its source; nothing is computed if the statement does not fit.

    ``cache`` keeps the source as long as the plan is used.
    """
    cache.release()  # the source of an earlier plan
    reads = TargetReads(spark=spark, snapshot=snapshot, is_retry=bool(conflicts))
    table, schema = snapshot.table_uri, snapshot.schema
    check_rows_writable(table, snapshot.protocol, snapshot.metadata)
    opened = open_source(spark, statement.source, target=snapshot, may_hold=True)
    check_names("the source", opened.frame.columns)
    time = StatementTime(spark, lambda: [*schema.names, *opened.frame.columns])
    statement = replace(statement, on=time.fixed(statement.on), clauses=time.in_clauses(statement.clauses))
    after = definition_after(snapshot, statement, opened.columns(table))
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
    matched = analyzed(inserted.join(target, sql_expression(statement.on), "left"))
    clauses = analyze(
        clauses,
        target_after.schema,
        matched=matched,
        inserted=inserted,
        not_matched_by_source=target,
        missing_as_null=statement.schema_evolution,
        table=table,
    )
    condition = parse_condition(statement.on, schema)
    is_of_another_table = not opened.has_target and _is_newest_version(statement.source)
    may_read_target = not (is_of_another_table and reads_one_row(key.other for key in condition.keys))
    source = materialize(opened, condition, schema, reads if may_read_target else None, cache)
    log_step("Source: %s", counted(source.rows, "row"))

    def predicate(text: str | None) -> Expression:
        return TRUE if text is None else predicate_of_analyzed(spark, text, schema, table)

    may_match = conjunction([*map(predicate, condition.about_target(schema)), source.matched])
    unmatched = disjunction(
        predicate(clause.condition and unqualified(clause.condition, schema)) for clause in clauses.not_matched_by_source
    )
    return MergePlan(
        statement=statement,
        base=_definition(snapshot),
        after=after,
        clauses=clauses,
        source=source,
        predicate=disjunction([may_match, unmatched]),
        unmatched=unmatched,
        views=opened.views,
        origin=with_sources(origin, opened.pins),
        reads=tuple(reads.predicates),
        is_of_one_version=opened.has_target or bool(reads),
    )


def _is_newest_version(source: Source) -> bool:
    """Whether the source is the newest version of a table, and nothing else."""
    match source:
        case TableSource(version=None, timestamp=None, staged=None):
            return True
        case _:
            return False


def _definition(snapshot: Snapshot) -> Definition:
    return Definition(metadata=snapshot.metadata, protocol=snapshot.protocol)
