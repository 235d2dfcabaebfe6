"""A file copier on Spark: workers share the files by size; the content does not pass through the driver."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.operations.file_copier import COPIED_FILE
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.spark.distributed.file_copy_worker import COPIED_DDL, CopyWorker
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.io.file_tasks import tasks_of_files
from airflow_delta.spark.io.map_files import PerTask, map_files
from airflow_delta.spark.io.worker_values import typed_worker_errors


class SparkFileCopier:
    """Copies in Spark's Python workers, which access both storages with Arrow."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def copy(self, source: LogStore, target: LogStore, folder: str, files: pa.Table) -> pa.Table:
        """Copy the files; returns the copies: see ``FileCopier``.

        Raises:
            UnsupportedStorageError: Workers cannot access one of the storages.
        """
        worker = CopyWorker(
            source_uri=source.table_uri,
            locate=FileLocator(_filesystems(source), hadoop_uri(source.table_uri), source.allowed_prefixes),
            target_uri=target.table_uri,
            target=_filesystems(target),
            folder=folder,
        )
        tasks = tasks_of_files(self._spark, files)
        with typed_worker_errors():
            mapped = map_files(self._spark, files, tasks, partial(PerTask, worker), COPIED_DDL)
            copied: pa.Table = mapped.toArrow().cast(COPIED_FILE)
        return copied


def _filesystems(store: LogStore) -> TableFilesystems:
    """The filesystems by which workers access the table's files.

    Raises:
        UnsupportedStorageError: They cannot: only this process can, or only Hadoop.
    """
    filesystems = TableFilesystems(hadoop_uri(store.table_uri), store.storage_options)
    try:
        filesystems()
    except UnsupportedStorageError as error:
        detail = f"a deep clone copies files by Arrow in Spark's workers: {error.detail}"
        raise UnsupportedStorageError(uri=store.table_uri, detail=detail) from error
    return filesystems
