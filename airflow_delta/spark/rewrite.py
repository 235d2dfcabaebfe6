"""New files out of existing ones, in Python workers: rows that do not change never enter the JVM.

One primitive serves MERGE (one input, changed rows) and compaction (many inputs, no change). An output is the concatenation of
its inputs, all of one partition; a change names a row by its position in that concatenation. The changes come from Spark as
Arrow batches, in the order of (output, row), and are streamed against the inputs, so that memory is bounded by the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from airflow_delta.core.actions import ADD_FILE, NO_ADDS
from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.rewrite_worker import RESULT, RESULT_DDL, RewriteWorker
from airflow_delta.spark.row_changes import DROP, NO_ROW, OUTPUT, ROW
from airflow_delta.spark.spark_schema import quoted
from airflow_delta.spark.worker_values import task_count, to_ipc, typed_worker_errors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rewritten:
    """What a rewrite made.

    Attributes:
        adds: The written files, ``ADD_FILE``; an output without rows has none.
        outputs: For each of them the ordinal of its output.
        rows_read: Rows of all inputs.
        rows_written: Rows of all written files.
    """

    adds: pa.Table = field(default_factory=lambda: NO_ADDS)
    outputs: pa.Array = field(default_factory=lambda: pa.array([], pa.int32()))
    rows_read: int = 0
    rows_written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileRewrite:
    """Which files become which.

    Attributes:
        snapshot: The table, for its schema and properties.
        inputs: The input files (``ADD_FILE``), in the order of their rows.
        outputs: For each input the ordinal of its output: int32, ascending from 0 without gaps.
        directory: Where the new files go, below the table's root; a retried task leaves unnamed files there.
        data_change: Whether the outputs hold other rows than the inputs.
    """

    snapshot: Snapshot
    inputs: pa.Table
    outputs: pa.Array
    directory: str
    data_change: bool

    def concatenate(self, spark: SparkSession, *, clock: Clock = system_clock) -> Rewritten:
        """Write every output with all rows of its inputs."""
        outputs = len(self.outputs.unique())
        calls = spark.range(0, outputs, 1, max(outputs, 1)).select(
            F.col("id").cast("int").alias(OUTPUT), F.lit(NO_ROW).alias(ROW), F.lit(False).alias(DROP)
        )
        return self._run(calls, clock)

    def change(self, changes: DataFrame, *, clock: Clock = system_clock) -> Rewritten:
        """Write the outputs that the changes name, with the changes applied, and no others.

        Args:
            changes: Columns ``OUTPUT`` (int), ``ROW`` (bigint), ``DROP`` (boolean: the row goes) and those columns of the table
                that the other rows take their new values from. Two changes of one row only if both drop it.
            clock: Gives the modification time of the files.
        """
        tasks = task_count(changes.sparkSession, self.inputs)
        return self._run(changes.repartitionById(tasks, F.col(OUTPUT)).sortWithinPartitions(OUTPUT, ROW), clock)

    def _run(self, ordered: DataFrame, clock: Clock) -> Rewritten:
        names = [name for name in ordered.columns if name not in (OUTPUT, ROW, DROP)]
        worker = RewriteWorker(
            columns=(OUTPUT, ROW, DROP, *names),
            table_uri=self.snapshot.table_uri,
            directory=self.directory,
            schema=self.snapshot.schema.without(self.snapshot.partition_columns),
            selection=StatisticsSelection.from_properties(self.snapshot.metadata.configuration),
            inputs=to_ipc(self.inputs.select(["path"]).append_column(OUTPUT, self.outputs)),
        )
        with typed_worker_errors():
            # Spark parses the names of what it maps: dots and backticks would be syntax.
            plainly_named = ordered.select(OUTPUT, ROW, DROP, *map(quoted, names)).toDF(*map(str, range(len(names) + 3)))
            results = plainly_named.mapInArrow(worker, RESULT_DDL).toArrow().cast(RESULT)
        read, written = (sum(results[name].to_pylist()) for name in ("rows_read", "rows_written"))
        files = results.filter(results["path"].is_valid()).sort_by("output")
        outputs = files["output"].combine_chunks()
        return Rewritten(adds=self._adds(files, clock()), outputs=outputs, rows_read=read, rows_written=written)

    def _adds(self, written: pa.Table, now: int) -> pa.Table:
        """The written files (``RESULT``) as the log takes them; an output stays in the partition of its inputs."""
        first_inputs = np.searchsorted(self.outputs, written["output"])
        rows = len(written)
        columns = {
            "path": written["path"],
            "partition_values": self.inputs["partition_values"].take(pa.array(first_inputs)),
            "size": written["size"],
            "modification_time": pa.repeat(pa.scalar(now, pa.int64()), rows),
            "data_change": pa.repeat(pa.scalar(self.data_change), rows),
            "stats": written["stats"],
        }
        return pa.table([columns.get(each.name, pa.nulls(rows, each.type)) for each in ADD_FILE], schema=ADD_FILE)
