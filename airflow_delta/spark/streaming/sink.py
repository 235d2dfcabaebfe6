"""Tables as the end of a stream: functions for ``foreachBatch`` that take each batch exactly once.

A commit carries the query and the number of its batch (Delta's ``txn``). Spark repeats a batch whose end it has not noted, such
as after a kill between our commit and its checkpoint; the table then shows that the batch is in it, and nothing is done.

A batch does not show what the stream has read. Rows of the table itself (to leave out those that it has, say) are taken in the
function, not in the stream: ``lambda rows, number: sink(rows.join(table.toDF(), "id", "left_anti"), number)``. If what was
read is changed by another writer meanwhile, the query ends in a conflict, and repeats the batch when it is started again.
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
    """Writes each batch into a table, which the first one makes: ``writeStream.foreachBatch(DeltaSink("/lake/events"))``.

    Attributes:
        table: URI of the table's root.
        query_id: Name that the table knows the query by. None is the id in the query's checkpoint, so that a query with a new
            checkpoint counts as another one; with a name of your own it does not, and batches whose numbers the table has seen
            under this name are left out. Over Spark Connect, where several queries run in one session, each needs a name.
        mode: ``append``; ``overwrite`` for the output mode ``complete``.
        partition_by: Partition columns when the table is made.
        merge_schema: Whether columns that only the rows have are added to the table.
        properties: Table properties when the table is made.
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
        self._statement(_ANY_BATCH)  # what is wrong is so before the query starts

    def __call__(self, frame: DataFrame, batch_id: int) -> OperationResult:
        """Write one batch, unless it is in the table.

        Raises:
            InvalidStatementError: The query is not known: see ``query_id``.
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
    """Merges each batch into a table that exists: ``foreachBatch(DeltaMergeSink("/lake/users", on="target.id = source.id"))``.

    Several rows of a batch that match one row of the table are an error: leave one of them before,
    ``lambda rows, number: sink(rows.dropDuplicates(["id"]), number)``.

    Attributes:
        table: URI of the table's root.
        on: Which rows match: Spark SQL over ``target`` and ``source``, which is the batch.
        clauses: What happens, in order.
        query_id: As of ``DeltaSink``.
        schema_evolution: Whether columns that only the rows have are added to the table.
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
        """Merge one batch, unless that is done already.

        Raises:
            InvalidStatementError: The query is not known: see ``query_id``.
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
    """The rows as a source; queries that share a session (as those of Spark Connect do below 4.3) have each its own."""
    view = f"streamed_batch_{uuid.uuid4().hex}"
    with temporary_views(frame.sparkSession, {view: frame}):
        yield SqlSource(f"TABLE {view}")
