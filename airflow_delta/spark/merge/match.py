"""Which rows of the target match, and what becomes of each: one join over as little of the target as possible.

Python workers read the columns that the statement mentions, and keep only rows whose key the source has (a superset filter, in
Arrow); these rows enter the JVM with their file and position, where Spark's join decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.data_files import ROW_INDEX, open_data_file
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.spark.data_paths import file_uri
from airflow_delta.spark.merge.clauses import BoundClauses, ClauseKind
from airflow_delta.spark.merge.condition import SOURCE, TARGET, mentioned_columns
from airflow_delta.spark.merge.source import MergeSource
from airflow_delta.spark.spark_schema import quoted, to_spark
from airflow_delta.spark.worker_values import from_ipc, task_count, to_ipc

FILE = "__file"
"""Column of staged rows: ordinal of the target row's file among the candidates; NULL for a source row without match."""
ROW = "__row"
"""Column of staged rows: physical position of the target row in its file."""
CHOICE = "__choice"
"""Column of staged rows: ordinal of the clause that applies; NULL for none."""
MOVED = "__moved"
"""Column of staged rows: whether an updated row belongs to another partition now."""

_SCAN_VALUES = 1 << 20
_MIN_SCAN_ROWS = 1 << 16


def stage(
    spark: SparkSession, snapshot: Snapshot, source: MergeSource, clauses: BoundClauses, candidates: pa.Table
) -> DataFrame:
    """What happens to which row, computed once: columns ``FILE``, ``ROW``, ``CHOICE``, ``MOVED`` and new values.

    One row for each pair that matches and each source row that a clause inserts. Values are there for the columns that updates
    set; for all columns where rows are inserted.

    Args:
        spark: The session.
        snapshot: The target.
        source: The materialised source.
        clauses: The statement's, bound to the target.
        candidates: Files (``ADD_FILE``) that may hold matches.
    """
    inserts = bool(clauses.of(ClauseKind.INSERT))
    texts = [source.on, *clauses.texts()]
    if clauses.moves_rows:
        texts += map(quoted, snapshot.partition_columns)
    needed = mentioned_columns(texts, snapshot.schema)
    target = scan_positions(spark, snapshot, candidates, needed, source.keys)
    # What comes out of Python is sized by Spark as what went in: next to nothing. It would broadcast the whole target.
    joined = source.frame.alias(SOURCE).join(
        target.hint("merge").alias(TARGET), F.expr(source.on), "left" if inserts else "inner"
    )
    joined = joined.withColumn(CHOICE, clauses.choice(F.col(FILE).isNotNull()))
    choice = F.col(CHOICE)
    moved = _is_moved(snapshot, clauses, choice).alias(MOVED)
    fields = snapshot.schema.fields if inserts else clauses.updated.fields
    staged = joined.select(FILE, ROW, choice, moved, *(clauses.new_value(each, choice) for each in fields))
    return staged.where(F.col(FILE).isNotNull() | choice.isNotNull()).localCheckpoint(eager=True)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionScan:
    """Reads every ``tasks``-th file in a Python worker. Tables are held as bytes."""

    table_uri: str
    columns: StructType
    files: bytes
    tasks: int
    keys: bytes | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition of task numbers."""
        files = from_ipc(self.files)
        keys = None if self.keys is None else from_ipc(self.keys)
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for file in range(task, len(files), self.tasks):
                    yield from self._read(file, files, keys)

    def _read(self, file: int, files: pa.Table, keys: pa.Table | None) -> Iterator[pa.RecordBatch]:
        filesystem, path = data_filesystem(file_uri(self.table_uri, files["path"][file].as_py()))
        values = dict(files["partition_values"][file].as_py())
        batch_rows = max(_SCAN_VALUES // max(len(self.columns.fields), 1), _MIN_SCAN_ROWS)
        rows = open_data_file(
            filesystem, path, self.columns, values, batch_rows=batch_rows, with_row_index=True, table=self.table_uri
        )
        for batch in rows:
            kept = batch if keys is None else batch.take(_positions_of(keys, batch))
            ordinals = pa.repeat(pa.scalar(file, pa.int32()), kept.num_rows)
            positions = kept.column(ROW_INDEX)
            yield pa.RecordBatch.from_arrays(
                [*(kept.column(name) for name in self.columns.names), ordinals, positions], [*self.columns.names, FILE, ROW]
            )


def _positions_of(keys: pa.Table, batch: pa.RecordBatch) -> pa.Array:
    """Positions of the rows that have one of the keys; NULLs equal nothing."""
    columns = {name: batch.column(name).cast(keys.schema.field(name).type) for name in keys.column_names}
    positions = pa.array(np.arange(batch.num_rows))
    found = pa.table({**columns, ROW: positions}).join(keys, keys.column_names, join_type="left semi", use_threads=False)
    return found[ROW].combine_chunks()


def _is_moved(snapshot: Snapshot, clauses: BoundClauses, choice: Column) -> Column:
    """Whether the row is updated and gets another value in a partition column."""
    if not clauses.moves_rows:
        return F.lit(False)
    fields = [each for each in snapshot.schema.fields if each.name in snapshot.partition_columns]
    changes = [~clauses.new_value(each, choice).eqNullSafe(F.col(f"{TARGET}.{quoted(each.name)}")) for each in fields]
    return clauses.is_of(choice, ClauseKind.UPDATE) & reduce(Column.__or__, changes)
