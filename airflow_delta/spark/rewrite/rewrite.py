"""Makes new files from existing ones in Python workers: rows that do not change never enter the JVM.

The same primitive serves MERGE (one input, changed rows) and compaction (many inputs, no changes). An output is the
concatenation of its inputs, all in one partition; a change identifies a row by its position in that concatenation. The changes
come from Spark as Arrow batches, sorted by (output, row), and are streamed along with the inputs, so that memory is bounded by
the batch.

Change data is written in the same pass if the table records it (PROTOCOL.md, "Change Data Files"). If the table tracks rows,
every row keeps its id and the version that last changed it; for a changed row, the commit sets the version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from airflow_delta.core.actions import ADD_FILE, CHANGE_FILE, NO_ADDS, NO_CHANGES
from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.data_files.compression import codec_for_arrow
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.spark.io.arrow_scan import estimated_size
from airflow_delta.spark.io.file_tasks import spread_by_file
from airflow_delta.spark.io.map_files import map_files
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.io.shared_bytes import share_files
from airflow_delta.spark.io.small_work import done_here, is_done_here
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.tasks import file_work, packed, task_count
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.rewrite.rewrite_worker import (
    INPUT_COLUMNS,
    RESULT,
    RESULT_DDL,
    ChangeWorker,
    ConcatenationWorker,
    RewriteWorker,
)
from airflow_delta.spark.rewrite.row_changes import MARKS, OUTPUT, ROW
from airflow_delta.spark.session import cores
from airflow_delta.spark.worker_code import map_in_arrow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rewritten:
    """The result of a rewrite.

    Attributes:
        adds: The new files, ``ADD_FILE``; an output without rows has none.
        outputs: For each of them the index of its output.
        rows_read: Rows in all inputs.
        rows_written: Rows in all new files.
        changes: Change data files, ``CHANGE_FILE``.
        change_rows: Rows in them.
    """

    adds: pa.Table = field(default_factory=lambda: NO_ADDS)
    outputs: pa.Array = field(default_factory=lambda: pa.array([], pa.int32()))
    rows_read: int = 0
    rows_written: int = 0
    changes: pa.Table = field(default_factory=lambda: NO_CHANGES)
    change_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileRewrite:
    """Which files become which.

    Attributes:
        snapshot: The table, for its schema and properties.
        inputs: The input files (``ADD_FILE``), in the order of their rows.
        outputs: For each input the index of its output: int32, ascending from 0 without gaps.
        directory: Directory of the new files, below the table's root; a retried task leaves unreferenced files there. None
            writes none.
        change_directory: Likewise, for change data files; None writes none.
        data_change: Whether the outputs have other rows than the inputs.
    """

    snapshot: Snapshot
    inputs: pa.Table
    outputs: pa.Array
    directory: str | None
    change_directory: str | None = None
    data_change: bool

    def concatenate(self, spark: SparkSession, *, clock: Clock = system_clock) -> Rewritten:
        """Write every output with all rows of its inputs."""
        if not len(self.inputs):
            return Rewritten()
        work = np.bincount(self.outputs, weights=file_work(self.inputs["size"])).astype(np.float64)
        tasks = packed(work, task_count(work.sum(), len(work), cores(spark)))[self.outputs.to_numpy()]
        inputs = self._numbered(self.inputs, self.outputs)
        worker = partial(ConcatenationWorker, self._worker)
        return self._rewritten(map_files(spark, inputs, tasks, worker, RESULT_DDL), clock)

    def change(
        self,
        spark: SparkSession,
        changes: DataFrame | pa.Table,
        changed: pa.Array,
        *,
        drops_rows: bool = True,
        clock: Clock = system_clock,
    ) -> Rewritten:
        """Write the outputs that the changes name, with the changes applied, and no others.

        Args:
            spark: The session.
            changes: Columns ``OUTPUT`` (int), ``ROW`` (bigint), ``DROP`` (boolean: the row is removed), ``LIVES_ON`` if change
                data is recorded, and the table's columns that get new values. Several changes of the same row are only allowed
                if all drop it. A table if this process holds the changes.
            changed: The outputs that they name, ascending: int32.
            drops_rows: Whether any of them drops its row.
            clock: Gives the modification time of the files.
        """
        is_changed = pc.is_in(self.outputs, changed)
        inputs = self.inputs.filter(is_changed)
        schema = self.snapshot.schema
        is_here = is_done_here(spark, schema, estimated_size(inputs, schema, schema), files=len(inputs))
        if isinstance(changes, pa.Table) and not is_here:
            changes = spark.createDataFrame(changes)
        changes = self._with_versions(changes)
        columns = tuple(changes.column_names if isinstance(changes, pa.Table) else changes.columns)
        numbered = self._numbered(inputs, self.outputs.filter(is_changed))
        with RowCache(None) as cache:
            worker = ChangeWorker(
                rewrite=self._worker,
                columns=columns,
                inputs=share_files(spark, numbered, OUTPUT, cache.at_end),
                drops_rows=drops_rows,
            )
            # Spark parses the column names that it passes to mapInArrow, so dots and backticks must be avoided.
            plain_names = list(map(str, range(len(columns))))
            if isinstance(changes, pa.Table):
                ordered = changes.sort_by([(OUTPUT, "ascending"), (ROW, "ascending")]).rename_columns(plain_names)
                return self._rewritten(done_here(worker, ordered.to_batches(), RESULT), clock)
            spread = changes.coalesce(1) if is_here else spread_by_file(changes, OUTPUT, changed, inputs)
            plainly_named = spread.sortWithinPartitions(OUTPUT, ROW).toDF(*plain_names)
            if is_here:
                return self._rewritten(done_here(worker, plainly_named.toArrow().to_batches(), RESULT), clock)
            return self._rewritten(map_in_arrow(plainly_named, worker, RESULT_DDL), clock)

    def _with_versions(self, changes: DataFrame | pa.Table) -> DataFrame | pa.Table:
        """The changes with NULL as version that last changed the row, as the commit sets it; unchanged if rows carry none."""
        names = changes.column_names if isinstance(changes, pa.Table) else changes.columns
        row_ids = self._row_ids
        if row_ids is None or row_ids.version_column is None or not set(names) - set(MARKS):
            return changes
        if isinstance(changes, pa.Table):
            return changes.append_column(row_ids.version_column, pa.nulls(len(changes), pa.int64()))
        return changes.withColumn(row_ids.version_column, F.lit(None).cast("bigint"))

    @property
    def _row_ids(self) -> RowIds | None:
        """How rows carry their ids; None if they carry none, or no new files are written."""
        return RowIds.from_configuration(self.snapshot.metadata.configuration) if self.directory else None

    @property
    def _worker(self) -> RewriteWorker:
        table = TableFiles.of(self.snapshot)
        table.locate.check(self.inputs["path"])
        return RewriteWorker(
            table=table,
            directory=self.directory,
            change_directory=self.change_directory,
            schema=self.snapshot.schema.without(self.snapshot.partition_columns),
            partitions=materialized_columns(self.snapshot.schema, self.snapshot.protocol, self.snapshot.metadata),
            selection=StatisticsSelection.from_properties(self.snapshot.metadata.configuration),
            codec=codec_for_arrow(self.snapshot.metadata.configuration),
            row_ids=self._row_ids,
        )

    @staticmethod
    def _numbered(inputs: pa.Table, outputs: pa.Array) -> pa.Table:
        return inputs.select(INPUT_COLUMNS).append_column(OUTPUT, outputs)

    def _rewritten(self, rewritten: DataFrame | pa.Table, clock: Clock) -> Rewritten:
        """The results of the workers, as actions."""
        with typed_worker_errors():
            results = rewritten if isinstance(rewritten, pa.Table) else rewritten.toArrow().cast(RESULT)
        read, written, changed = (sum(results[name].to_pylist()) for name in ("rows_read", "rows_written", "change_rows"))
        files, change_files = (results.filter(results[name].is_valid()).sort_by("output") for name in ("path", "change_path"))
        return Rewritten(
            adds=self._adds(files, clock()),
            outputs=files["output"].combine_chunks(),
            rows_read=read,
            rows_written=written,
            changes=self._changes(change_files),
            change_rows=changed,
        )

    def _adds(self, written: pa.Table, now: int) -> pa.Table:
        """The new files (``RESULT``) as adds; an output stays in the partition of its inputs."""
        rows = len(written)
        columns = {
            "path": written["path"],
            "partition_values": self._partition_values(written),
            "size": written["size"],
            "modification_time": pa.repeat(pa.scalar(now, pa.int64()), rows),
            "data_change": pa.repeat(pa.scalar(self.data_change), rows),
            "stats": written["stats"],
        }
        return pa.table([columns.get(field.name, pa.nulls(rows, field.type)) for field in ADD_FILE], schema=ADD_FILE)

    def _changes(self, written: pa.Table) -> pa.Table:
        """The change data files (``RESULT``) as actions."""
        columns = {
            "path": written["change_path"],
            "partition_values": self._partition_values(written),
            "size": written["change_size"],
            "data_change": pa.repeat(pa.scalar(value=False), len(written)),
        }
        return pa.table(
            [columns.get(field.name, pa.nulls(len(written), field.type)) for field in CHANGE_FILE], schema=CHANGE_FILE
        )

    def _partition_values(self, written: pa.Table) -> pa.ChunkedArray:
        first_inputs = np.searchsorted(self.outputs, written["output"])
        return self.inputs["partition_values"].take(pa.array(first_inputs))
