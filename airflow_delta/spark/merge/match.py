"""Which rows of the target match, and what becomes of each: one join over as little of the target as possible.

Python workers read the columns that the statement mentions, and keep only rows whose key the source has (a superset filter, in
Arrow); these rows enter the JVM with their file and position, where Spark's join decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.merge.clauses import BoundClauses, ClauseKind
from airflow_delta.spark.merge.condition import SOURCE, TARGET, mentioned_columns
from airflow_delta.spark.merge.position_scan import FILE, ROW, PositionScan
from airflow_delta.spark.merge.source import MergeSource
from airflow_delta.spark.spark_schema import quoted, to_spark
from airflow_delta.spark.worker_values import task_count, to_ipc, typed_worker_errors

CHOICE = "__choice"
"""Column of staged rows: ordinal of the clause that applies; NULL for none."""
MOVED = "__moved"
"""Column of staged rows: whether an updated row belongs to another partition now."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedChanges:
    """What happens to which row of the target, computed once.

    Attributes:
        snapshot: The target.
        clauses: The statement's, bound to the target.
        candidates: The files (``ADD_FILE``) that may hold matches; ``FILE`` counts them.
        rows: One row for each pair that matches and for each source row that a clause inserts: ``FILE``, ``ROW``, ``CHOICE``,
            ``MOVED`` and new values; of all columns where rows are inserted, else of those that updates set.
    """

    snapshot: Snapshot
    clauses: BoundClauses
    candidates: pa.Table
    rows: DataFrame

    def of(self, *kinds: ClauseKind) -> Column:
        """Whether a row takes a clause of one of these kinds."""
        return self.clauses.is_of(F.col(CHOICE), *kinds)


def stage(
    spark: SparkSession, snapshot: Snapshot, source: MergeSource, clauses: BoundClauses, candidates: pa.Table
) -> StagedChanges:
    """Join the materialised source with the rows of the candidates that it may match, and keep the result."""
    inserts = bool(clauses.of(ClauseKind.INSERT))
    texts = [source.on, *clauses.texts()]
    if clauses.moves_rows:
        texts += map(quoted, snapshot.partition_columns)
    target = scan_positions(spark, snapshot, candidates, mentioned_columns(texts, snapshot.schema), source.keys)
    # What comes out of Python is sized by Spark as what went in: next to nothing. It would broadcast the whole target.
    target = target.hint("merge").alias(TARGET)
    joined = source.frame.alias(SOURCE).join(target, F.expr(source.on), "left" if inserts else "inner")
    joined = joined.withColumn(CHOICE, clauses.choice(F.col(FILE).isNotNull()))
    choice = F.col(CHOICE)
    moved = _is_moved(snapshot, clauses, choice).alias(MOVED)
    fields = snapshot.schema.fields if inserts else clauses.updated.fields
    rows = joined.select(FILE, ROW, choice, moved, *(clauses.new_value(each, choice) for each in fields))
    with typed_worker_errors():
        rows = rows.where(F.col(FILE).isNotNull() | choice.isNotNull()).localCheckpoint(eager=True)
    return StagedChanges(snapshot=snapshot, clauses=clauses, candidates=candidates, rows=rows)


def scan_positions(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table, columns: StructType, keys: pa.Table | None
) -> DataFrame:
    """The rows of these files with ``FILE`` and ``ROW``, less those that have none of the keys (all, where keys is None)."""
    schema = to_spark(columns).add(FILE, spark_types.IntegerType()).add(ROW, spark_types.LongType())
    if not len(files):
        return spark.createDataFrame([], schema)
    tasks = task_count(spark, files)
    worker = PositionScan(
        table_uri=snapshot.table_uri,
        columns=columns,
        files=to_ipc(files.select(["path", "partition_values"])),
        tasks=tasks,
        keys=None if keys is None else to_ipc(keys),
    )
    return spark.range(0, tasks, 1, tasks).mapInArrow(worker, schema)


def _is_moved(snapshot: Snapshot, clauses: BoundClauses, choice: Column) -> Column:
    """Whether the row is updated and gets another value in a partition column."""
    if not clauses.moves_rows:
        return F.lit(False)
    fields = [each for each in snapshot.schema.fields if each.name in snapshot.partition_columns]
    changes = [~clauses.new_value(each, choice).eqNullSafe(F.col(f"{TARGET}.{quoted(each.name)}")) for each in fields]
    return clauses.is_of(choice, ClauseKind.UPDATE) & reduce(Column.__or__, changes)
