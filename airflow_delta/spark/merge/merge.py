"""MERGE: the statement, and its rounds. A round is done again from the newest version when somebody else was faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CommitConflictError, MetadataChangedError, ProtocolChangedError
from airflow_delta.core.predicate import conjunction, parse_predicate
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import MergeStatement, OperationResult
from airflow_delta.core.transaction.commit_result import redone
from airflow_delta.spark.merge.analysis import analyse
from airflow_delta.spark.merge.clauses import bind_clauses
from airflow_delta.spark.merge.condition import parse_condition
from airflow_delta.spark.merge.round import MergePlan, run_round
from airflow_delta.spark.merge.source import materialise
from airflow_delta.spark.outcome import earlier_result, with_sources
from airflow_delta.spark.session import time_zone
from airflow_delta.spark.sources import open_source
from airflow_delta.spark.supported import check_rows_writable

_LOST_ROWS = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

MAX_ROUNDS = 20
"""How often the work is done before a conflict becomes the caller's."""


def merge(
    spark: SparkSession,
    log: DeltaLog,
    statement: MergeStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Run a MERGE and commit it, or raise and leave the table as it is.

    A faster writer whose commit makes the result wrong costs another round inside: the match is done again on the newest
    version, with the rows of the source as they were the first time.

    Args:
        spark: The session.
        log: The target's log.
        statement: What to do.
        origin: Who asks; a commit with its token counts as this statement's.
        start_version: Version of the target when the token was minted, for the search for that commit; None is the version that
            the first round reads.

    Raises:
        TableNotFoundError: The target does not exist; nothing is created.
        SchemaMismatchError: A clause asks for columns that are not there, or for values that do not fit their column.
        MultipleSourceRowsMatchedError: A target row has more than one match.
        ConstraintViolatedError: NULL in a column that is NOT NULL.
        ExpectationFailedError: A gate says no.
        CommitConflictError: Others were faster in every round, or changed what the table is.
    """
    searched_from = start_version
    conflicts: list[Mapping[str, Any]] = []
    plan: MergePlan | None = None
    for _ in range(MAX_ROUNDS):
        snapshot = log.refresh()
        searched_from = snapshot.version if searched_from is None else searched_from
        # The winner of the last round may be a lost twin of this very task, or stand before one.
        earlier = earlier_result(log, origin or Origin(), searched_from)
        if earlier is not None:
            return replace(earlier, conflicts=tuple(conflicts), attempts=1 + len(conflicts))
        try:
            plan = plan or _plan(spark, snapshot, statement, origin)
            return run_round(spark, log, snapshot, plan, conflicts)
        except (MetadataChangedError, ProtocolChangedError):
            raise
        except CommitConflictError as conflict:
            lost = conflict
            conflicts.append(redone(conflict))
        except (PySparkException, Py4JJavaError) as error:
            # An executor is gone, and the rows that it kept with it: the statement starts again, source and all.
            if _LOST_ROWS not in str(error):
                raise
            lost, plan = error, None
    raise lost


def _plan(spark: SparkSession, snapshot: Snapshot, statement: MergeStatement, origin: Origin | None) -> MergePlan:
    """Bind the statement to the target, and compute its source; nothing is computed when the statement does not fit."""
    table, schema = snapshot.table_uri, snapshot.schema
    check_rows_writable(table, snapshot.protocol, snapshot.metadata)
    opened = open_source(spark, statement.source)
    clauses = bind_clauses(
        statement.clauses,
        schema,
        snapshot.partition_columns,
        table=table,
        whole_rows=bool(statement.expect),
    )
    clauses = analyse(opened.frame, schema, statement.on, clauses, table=table)
    condition = parse_condition(statement.on, schema)
    source = materialise(opened.frame, condition, schema)
    about_target = (parse_predicate(text, schema, table, time_zone=time_zone(spark)) for text in condition.about_target())
    return MergePlan(
        statement=statement,
        clauses=clauses,
        source=source,
        predicate=conjunction([*about_target, source.matched]),
        views=opened.views,
        origin=with_sources(origin, opened.pins),
    )
