"""Rewrites files so that rows are clustered by some columns.

The rows of a group are read once, shuffled once and written once, in Python workers only. Before that, the clustering columns
are sampled; the leaves of a k-d tree built from the sample become files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.data_files import StatisticsSelection
from airflow_delta.core.data_files.compression import codec_for_arrow
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.log.record_counts import NUM_RECORDS, with_record_counts
from airflow_delta.core.schema import StructType
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.spark.errors import StagedFilesError
from airflow_delta.spark.io.file_tasks import tasks_of_files
from airflow_delta.spark.io.map_files import map_files
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.tasks import task_count
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.optimize.partition_tree import SINGLE_LEAF, build_partition_tree
from airflow_delta.spark.optimize.sampling import GROUP, SAMPLE_DDL, SEED, STEP, Paths, SampleWorker, unpacked
from airflow_delta.spark.optimize.shuffle import (
    MESSAGES_DDL,
    WRITTEN,
    WRITTEN_DDL,
    CopiedColumns,
    OutputWriter,
    Placement,
    ShuffleWriter,
)
from airflow_delta.spark.rewrite.rewrite import Rewritten
from airflow_delta.spark.rewrite.rewrite_worker import INPUT_COLUMNS
from airflow_delta.spark.session import cores
from airflow_delta.spark.spark_features import repartition_by_id
from airflow_delta.spark.worker_code import map_in_arrow

_SAMPLED_FILES = 256
_SAMPLED_ROWS_PER_FILE = 1_000  # file sizes then vary by about 3 %
_SAMPLED_ROWS = 20_000, 2_000_000  # least and most in a group
_BUCKET_BYTES = 64 << 20  # part of a file, about a row group, so that readers can skip row groups like files
_GUESSED_ROW_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusteredRewrite:
    """Which files to rewrite, and by which columns.

    Attributes:
        snapshot: The table, for its schema and properties.
        inputs: The files (``ADD_FILE``), group by group.
        groups: For each file the index of its group: int32, ascending from 0 without gaps. A group lies in one partition.
        paths: The clustering columns, as paths of names.
        file_size: Approximate bytes of a new file.
        directory: Directory of the new files, below the table's root; a retried task leaves unreferenced files there.
    """

    snapshot: Snapshot
    inputs: pa.Table
    groups: pa.Array
    paths: Paths
    file_size: int
    directory: str

    def run(self, spark: SparkSession, *, clock: Clock = system_clock) -> Rewritten:
        """Write all rows of every group; the ``outputs`` of the result are the groups.

        Raises:
            StagedFilesError: The new files do not contain as many rows as were read.
        """
        placements = self._placements(spark)
        first_outputs = np.array([placement.first_output for placement in placements.values()])
        outputs = sum(-(-placement.tree.buckets // placement.buckets_per_file) for placement in placements.values())
        schema = self.snapshot.schema.without(self.snapshot.partition_columns)
        configuration = self.snapshot.metadata.configuration
        partitions = materialized_columns(self.snapshot.schema, self.snapshot.protocol, self.snapshot.metadata)
        columns = CopiedColumns(schema=schema, partitions=partitions, row_ids=RowIds.from_configuration(configuration))
        writer = partial(
            ShuffleWriter, table=TableFiles.of(self.snapshot), columns=columns, paths=self.paths, placements=placements
        )
        output_writer = OutputWriter(
            table=TableFiles.of(self.snapshot),
            directory=self.directory,
            columns=columns,
            selection=StatisticsSelection.from_properties(configuration),
            codec=codec_for_arrow(configuration),
        )
        with typed_worker_errors():
            tasks = tasks_of_files(spark, self.inputs)
            messages = map_files(spark, self._files, tasks, lambda shares: writer(shares=shares), MESSAGES_DDL)
            buckets_per_file = max(placement.buckets_per_file for placement in placements.values())
            by_output = self._by_output(spark, messages, outputs, is_ordered_within=buckets_per_file > 1)
            results = map_in_arrow(by_output, output_writer, WRITTEN_DDL).toArrow().cast(WRITTEN)
        read, written = (sum(results[name].to_pylist()) for name in ("rows_read", "rows_written"))
        if read != written:
            detail = f"{read} rows were read, {written} were written"
            raise StagedFilesError(table=self.snapshot.table_uri, detail=detail)
        files = results.filter(results["path"].is_valid()).sort_by("output")
        groups = np.searchsorted(first_outputs, files["output"].to_numpy(), side="right") - 1
        return Rewritten(
            adds=self._adds(files, groups, clock()), outputs=pa.array(groups, pa.int32()), rows_read=read, rows_written=written
        )

    @property
    def _files(self) -> pa.Table:
        return self.inputs.select(INPUT_COLUMNS).append_column(GROUP, self.groups)

    def _by_output(self, spark: SparkSession, messages: DataFrame, outputs: int, *, is_ordered_within: bool) -> DataFrame:
        """The messages of each output in one partition, one output after the other.

        Large files have a task each, which takes messages in the order of arrival: to sort them, Spark would have to hold them
        all.
        """
        tasks = task_count(pc.sum(self.inputs["size"]).as_py() or 0, outputs, cores(spark))
        parted = repartition_by_id(messages, tasks, F.col("output"))
        return parted.sortWithinPartitions("output", "bucket") if tasks < outputs or is_ordered_within else parted

    def _placements(self, spark: SparkSession) -> dict[int, Placement]:
        """Where the rows of each group go, based on a sample."""
        groups = self.groups.to_numpy()
        sizes = np.bincount(groups, weights=self.inputs["size"].to_numpy())
        files = np.maximum(1, np.rint(sizes / self.file_size)).astype(int)
        buckets_per_file = np.maximum(1, np.rint(sizes / files / _BUCKET_BYTES)).astype(int)
        samples = self._samples(spark, np.where(files * buckets_per_file > 1, files, 0))
        placements: dict[int, Placement] = {}
        first_output = 0
        for group, (count, buckets) in enumerate(zip(files.tolist(), buckets_per_file.tolist(), strict=True)):
            begins: tuple[np.ndarray, ...] = ()
            tree = SINGLE_LEAF
            if group in samples:
                distinct, codes = zip(*(column.distinct() for column in unpacked(samples[group])), strict=True)
                built = build_partition_tree(codes, count, buckets)
                cuts = [built.begins(column) for column in range(len(codes))]
                tree = built.with_codes(cuts)
                begins = tuple(values[cut - 1] for values, cut in zip(distinct, cuts, strict=True))
            placements[group] = Placement(tree=tree, begins=begins, buckets_per_file=buckets, first_output=first_output)
            first_output += -(-tree.buckets // buckets)
        return placements

    def _samples(self, spark: SparkSession, files: np.ndarray) -> dict[int, list[bytes]]:
        """The results of ``SampleWorker`` by group; only for groups that become several ``files``."""
        groups = self.groups.to_numpy()
        counted = with_record_counts(self.inputs, [NUM_RECORDS.name])[NUM_RECORDS.name]
        guessed = pc.divide(self.inputs["size"], _GUESSED_ROW_BYTES)
        rows = np.maximum(pc.coalesce(counted, guessed).to_numpy(), 1)
        share = min(1.0, _SAMPLED_FILES / max(1, int(np.sum(files[groups] > 0))))
        taken: list[int] = []
        steps: list[int] = []
        for group in np.flatnonzero(files).tolist():
            first, end = np.searchsorted(groups, [group, group + 1]).tolist()
            count = math.ceil((end - first) * share)
            chosen = np.linspace(first, end - 1, count).astype(int)
            wanted = min(max(_SAMPLED_ROWS_PER_FILE * int(files[group]), _SAMPLED_ROWS[0]), _SAMPLED_ROWS[1])
            taken += chosen.tolist()
            steps += [max(1, int(rows[chosen].sum() / wanted))] * count
        if not taken:
            return {}
        sampled = self._files.append_column("size", self.inputs["size"]).take(pa.array(taken))
        top = {path[0] for path in self.paths}
        worker = partial(
            SampleWorker,
            table=TableFiles.of(self.snapshot),
            columns=StructType(tuple(field for field in self.snapshot.schema.fields if field.name in top)),
            paths=self.paths,
        )
        drawn = sampled.drop_columns(["size"]).append_column(STEP, pa.array(steps, pa.int64()))
        drawn = drawn.append_column(SEED, pa.array(range(len(taken)), pa.int64()))
        tasks = tasks_of_files(spark, sampled)
        with typed_worker_errors():
            results = map_files(spark, drawn, tasks, lambda shares: worker(shares=shares), SAMPLE_DDL).toArrow()
        samples: dict[int, list[bytes]] = {}
        for group, content in zip(results["group"].to_pylist(), results["content"].to_pylist(), strict=True):
            samples.setdefault(group, []).append(content)
        return samples

    def _adds(self, written: pa.Table, groups: np.ndarray, now: int) -> pa.Table:
        """The written files (``WRITTEN``) as adds; a group's files stay in its partition."""
        rows = len(written)
        first_inputs = np.searchsorted(self.groups, groups)
        columns = {
            "path": written["path"],
            "partition_values": self.inputs["partition_values"].take(pa.array(first_inputs)),
            "size": written["size"],
            "modification_time": pa.repeat(pa.scalar(now, pa.int64()), rows),
            "data_change": pa.repeat(pa.scalar(value=False), rows),
            "stats": written["stats"],
        }
        return pa.table([columns.get(field.name, pa.nulls(rows, field.type)) for field in ADD_FILE], schema=ADD_FILE)
