"""Tables as sinks of a stream: functions for ``foreachBatch`` that write each batch exactly once.

A commit records the query and the number of its batch (Delta's ``txn``). Spark repeats a batch that it has not recorded as
done, for example after a kill between our commit and Spark's checkpoint; the table then shows that it already contains the
batch, and nothing is done.

A batch does not show what the stream has read. If the function needs rows of the table itself (to leave out rows that the table
already has, say), read them in the function, not in the stream: ``lambda rows, number: sink(rows.join(table.toDF(), "id",
"left_anti"), number)``. If another writer changes what was read meanwhile, the query ends with a conflict, and repeats the
batch when it is restarted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field

from pyspark.sql import DataFrame

from airflow_delta.core.statements import (
    UPSERT,
    Clause,
    Expectation,
    MergeStatement,
    OperationResult,
    SqlSource,
    WriteMode,
    WriteStatement,
)
from airflow_delta.core.statements.fields import converted_value
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.session import temporary_views
from airflow_delta.spark.streaming.query_id import query_id
from airflow_delta.spark.write.write import write

_ANY_BATCH = SqlSource("TABLE batch")


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """Writes each batch to a table, which the first batch creates: ``writeStream.foreachBatch(DeltaSink("/lake/events"))``.

    Attributes:
        table: URI of the table's root.
        query_id: Name by which the table identifies the query. None uses the id in the query's checkpoint, so that a query with
            a new checkpoint counts as a new query. With a name of your own it remains the same query, and batches with numbers
            that the table has recorded under this name are skipped. With Spark Connect, if several queries run in one session,
            each needs a name.
        mode: ``append``, or ``overwrite`` for the output mode ``complete``.
        partition_by: Partition columns of a new table.
        merge_schema: Whether to add columns to the table that only the rows have.
        properties: Table properties of a new table.
        expect: Checks on the rows of each batch.
    """

    table: str
    _: KW_ONLY
    query_id: str | None = None
    mode: WriteMode | str = WriteMode.APPEND
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[Expectation, ...] = ()

    def __post_init__(self) -> None:
        self._statement(_ANY_BATCH)  # so that errors show before the query starts

    def __call__(self, frame: DataFrame, batch_id: int) -> OperationResult:
        """Write one batch, unless the table already contains it.

        Raises:
            InvalidStatementError: The query cannot be identified: see ``query_id``.
            DeltaError: As ``write`` raises it.
        """
        spark = frame.sparkSession
        txn = (self.query_id or query_id(spark), batch_id)
        with _batch(frame) as source:
            return write(spark, table_log(spark, self.table), self._statement(source, txn))

    def _statement(self, source: SqlSource, txn: tuple[str, int] | None = None) -> WriteStatement:
        return WriteStatement(
            table=self.table,
            source=source,
            mode=converted_value("DeltaSink", "mode", self.mode, WriteMode),
            partition_by=self.partition_by,
            merge_schema=self.merge_schema,
            properties=self.properties,
            expect=self.expect,
            txn=txn,
        )


@dataclass(frozen=True, slots=True)
class DeltaMergeSink:
    """Merges each batch into an existing table: ``foreachBatch(DeltaMergeSink("/lake/users", on="target.id = source.id"))``.

    If several rows of a batch match the same table row, the batch fails: keep only one of them beforehand, ``lambda rows,
    number: sink(rows.dropDuplicates(["id"]), number)``.

    Attributes:
        table: URI of the table's root.
        on: The condition by which rows match: Spark SQL over ``target`` and ``source``, the batch.
        clauses: The clauses, in order.
        query_id: As of ``DeltaSink``.
        schema_evolution: Whether to add columns to the table that only the rows have.
        expect: Checks on the rows to be written.
    """

    table: str
    _: KW_ONLY
    on: str
    clauses: tuple[Clause, ...] = UPSERT
    query_id: str | None = None
    schema_evolution: bool = False
    expect: tuple[Expectation, ...] = ()

    def __post_init__(self) -> None:
        self._statement(_ANY_BATCH)

    def __call__(self, frame: DataFrame, batch_id: int) -> OperationResult:
        """Merge one batch, unless that has been done already.

        Raises:
            InvalidStatementError: The query cannot be identified: see ``query_id``.
            DeltaError: As ``merge`` raises it.
        """
        spark = frame.sparkSession
        txn = (self.query_id or query_id(spark), batch_id)
        with _batch(frame) as source:
            return merge(spark, table_log(spark, self.table), self._statement(source), txn=txn)

    def _statement(self, source: SqlSource) -> MergeStatement:
        return MergeStatement(
            table=self.table,
            source=source,
            on=self.on,
            clauses=self.clauses,
            schema_evolution=self.schema_evolution,
            expect=self.expect,
        )


@contextmanager
def _batch(frame: DataFrame) -> Iterator[SqlSource]:
    """The rows as a source, with a unique name: queries may share a session (as those of Spark Connect do before 4.3)."""
    view = f"streamed_batch_{uuid.uuid4().hex}"
    with temporary_views(frame.sparkSession, {view: frame}):
        yield SqlSource(f"TABLE {view}")
