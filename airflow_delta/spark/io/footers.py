"""Reads footers of data files, in threads of the driver or, if there are many, in Spark's workers.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import SparkSession

from airflow_delta.core.data_files import StatisticsSelection, describe_file
from airflow_delta.core.schema import StructType
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.io.file_tasks import tasks_of_units
from airflow_delta.spark.io.map_files import PerTask, map_files
from airflow_delta.spark.io.tasks import FOOTER_BYTES
from airflow_delta.spark.io.worker_values import typed_worker_errors

FOOTERS = pa.schema([("path", pa.string()), ("num_records", pa.int64()), ("stats", pa.string())])
"""One row for each file; ``path`` as it was given."""
FOOTERS_DDL = "path string, num_records long, stats string"

_THREADS = 8
_DRIVER_FILES = 2_000  # on the driver a footer takes about 1 ms; a Spark job with Python workers takes 1 s to start

FooterReader = Callable[[pa.Table], Iterator[pa.RecordBatch]]
"""Reads files, given by their ``path``, and returns rows."""


def read_footers(
    spark: SparkSession, store: LogStore, paths: Sequence[str], schema: StructType, configuration: Mapping[str, str]
) -> pa.Table:
    """Number of rows and statistics of files (``FOOTERS``, in any order).

    Args:
        spark: The session.
        store: The table's store, which provides the filesystem.
        paths: Paths in the filesystem that ``store.data_filesystem`` returns.
        schema: The table's schema without partition columns.
        configuration: The table's properties, which select the columns with statistics.
    """
    selection = StatisticsSelection.from_properties(configuration)
    here = _Describer(data_filesystem=store.data_filesystem, schema=schema, selection=selection)
    in_worker = replace(here, data_filesystem=TableFilesystems(hadoop_uri(store.table_uri), store.storage_options))
    return look_into(spark, paths, FOOTERS, FOOTERS_DDL, here=here, in_worker=in_worker)


def look_into(
    spark: SparkSession, paths: Sequence[str], schema: pa.Schema, ddl: str, *, here: FooterReader, in_worker: FooterReader
) -> pa.Table:
    """The rows that a footer reader returns for files, in any order.

    Args:
        spark: The session.
        paths: The files.
        schema: Schema of these rows.
        ddl: The same schema as Spark DDL.
        here: The reader for use on the driver, for few files.
        in_worker: The reader for use in workers.
    """
    files = pa.table({"path": pa.array(paths, pa.string())})
    if len(files) <= _DRIVER_FILES:
        return pa.Table.from_batches(here(files), schema)
    tasks = tasks_of_units(spark, len(files), len(files) * FOOTER_BYTES)
    with typed_worker_errors():
        return map_files(spark, files, tasks, partial(PerTask, in_worker), ddl).toArrow().cast(schema)


def in_threads(look: Callable[[str], Mapping[str, object]], files: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """The results of a function for the path of each of these files, with the path; computed in threads."""
    paths = files["path"].to_pylist()
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(look, paths)
        return pa.RecordBatch.from_pylist([{"path": path, **row} for path, row in zip(paths, found, strict=True)], schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Describer:
    """Reads ``FOOTERS`` of files."""

    data_filesystem: Callable[[], tuple[pafs.FileSystem, str]]
    schema: StructType
    selection: StatisticsSelection

    def __call__(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        def described(path: str) -> Mapping[str, object]:
            filesystem, _ = self.data_filesystem()
            file = describe_file(filesystem, path, self.schema, self.selection)
            return {"num_records": file.num_records, "stats": file.stats}

        yield in_threads(described, files, FOOTERS)
