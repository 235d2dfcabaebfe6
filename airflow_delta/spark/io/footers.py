"""The footers of new files: how many rows they hold, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import SparkSession

from airflow_delta.core.data_files import StatisticsSelection, describe_file
from airflow_delta.core.schema import StructType
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.io.tasks import FOOTER_BYTES, task_count
from airflow_delta.spark.session import cores

FOOTERS = pa.schema([("path", pa.string()), ("num_records", pa.int64()), ("stats", pa.string())])
"""One row per file; ``path`` as it was given."""

_THREADS = 8
_DRIVER_FILES = 2000  # a footer takes the driver about a millisecond, a Spark job with Python workers a second to start


def read_footers(
    spark: SparkSession, store: LogStore, paths: Sequence[str], schema: StructType, configuration: Mapping[str, str]
) -> pa.Table:
    """Rows and statistics of files (``FOOTERS``, in no order), read by threads here or, when they are many, by Spark's workers.

    Args:
        spark: The session.
        store: The table's, which says how the files are reached.
        paths: As ``store.data_filesystem`` names them.
        schema: The table's schema without partition columns.
        configuration: The table's properties, which choose the columns with statistics.
    """
    selection = StatisticsSelection.from_properties(configuration)
    if len(paths) <= _DRIVER_FILES:
        return pa.Table.from_batches([_reader(store.data_filesystem, schema, selection)(paths)], FOOTERS)
    read = _reader(TableFilesystems(hadoop_uri(store.table_uri), store.storage_options), schema, selection)
    tasks = task_count(len(paths) * FOOTER_BYTES, len(paths), cores(spark))
    frame = spark.createDataFrame(pa.table({"path": paths})).repartition(tasks)
    return frame.mapInArrow(_in_worker(read), "path string, num_records long, stats string").toArrow().cast(FOOTERS)


def _reader(
    data_filesystem: Callable[[], tuple[pafs.FileSystem, str]], schema: StructType, selection: StatisticsSelection
) -> Callable[[Sequence[str]], pa.RecordBatch]:
    def read(paths: Sequence[str]) -> pa.RecordBatch:
        filesystem, _ = data_filesystem()
        with ThreadPoolExecutor(_THREADS) as threads:
            footers = list(threads.map(lambda path: _footer(filesystem, path, schema, selection), paths))
        return pa.RecordBatch.from_pylist(
            [{"path": path, **footer} for path, footer in zip(paths, footers, strict=True)], FOOTERS
        )

    return read


def _footer(filesystem: pafs.FileSystem, path: str, schema: StructType, selection: StatisticsSelection) -> dict[str, object]:
    file = describe_file(filesystem, path, schema, selection)
    return {"num_records": file.num_records, "stats": file.stats}


def _in_worker(
    read: Callable[[Sequence[str]], pa.RecordBatch],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield read(batch.column("path").to_pylist())

    return read_batches
