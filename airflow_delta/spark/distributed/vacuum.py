"""A vacuum executor on Spark: workers share listing and deletion; the core decides which files to delete."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import SparkSession

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.operations.bulk_delete import FailedDelete
from airflow_delta.core.operations.unneeded_files import LISTED_FILE
from airflow_delta.core.operations.vacuum_executor import LocalVacuumExecutor, vacuum_incomplete
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.table_filesystems import TableFilesystems
from airflow_delta.spark.distributed.vacuum_worker import FAILED, FAILED_DDL, LISTED_DDL, Deleter, Lister, listed
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.io.file_tasks import tasks_of_units
from airflow_delta.spark.io.map_files import PerTask, map_files
from airflow_delta.spark.io.tasks import DELETED_FILE_BYTES, LISTED_FILE_BYTES, task_count
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.session import cores

MANY_FILES = 100_000
"""Files for which a Spark job pays off: a page of a listing has a thousand files, and takes a tenth of a second."""

_MOST_LEVELS = 4
_THREADS = 16


class SparkVacuumExecutor:
    """Lists and deletes in Spark tasks if the table is large and in an object store; otherwise in this process.

    A disk is no faster with many readers, and workers may have different disks. Only the driver can access Hadoop's
    filesystems.
    """

    def __init__(self, spark: SparkSession, *, many: int = MANY_FILES) -> None:
        """``many``: with fewer files (live files for listing, files to delete for deletion) this process does the work."""
        self._spark = spark
        self._many = many
        self._local = LocalVacuumExecutor()

    def list_files(self, snapshot: Snapshot) -> pa.Table:
        """Every file below the root; each task lists several directories recursively."""
        store = snapshot.store
        live = len(snapshot.files(columns=["size"]))
        if not self._is_shared(store, live):
            return self._local.list_files(snapshot)
        filesystems = TableFilesystems(hadoop_uri(store.table_uri), store.storage_options)
        filesystem, root = filesystems()
        if isinstance(filesystem, pafs.PyFileSystem):  # fsspec's: it gives Arrow no modification times, and workers may lack it
            return self._local.list_files(snapshot)
        tasks = task_count(live * LISTED_FILE_BYTES, live, cores(self._spark))
        files, directories = shared_directories(filesystem, root, tasks)
        pieces = [pa.Table.from_batches([listed(files, root)])]
        if directories:
            names = pa.table(
                {"directory": pa.array([directory.removeprefix(f"{root}/") for directory in directories], pa.string())}
            )
            shared = tasks_of_units(self._spark, len(directories), live * LISTED_FILE_BYTES)
            lister = partial(PerTask, Lister(filesystems=filesystems))
            with typed_worker_errors():
                pieces.append(map_files(self._spark, names, shared, lister, LISTED_DDL).toArrow().cast(LISTED_FILE))
        return pa.concat_tables(pieces)

    def delete(self, store: LogStore, paths: pa.Array) -> None:
        """Delete the files, many per request; in this process if workers lack the storage's package.

        Raises:
            VacuumIncompleteError: Some files were not deleted.
            StorageAccessError: The storage denies deleting any file.
        """
        if not self._is_shared(store, len(paths)):
            self._local.delete(store, paths)
            return
        tasks = tasks_of_units(self._spark, len(paths), len(paths) * DELETED_FILE_BYTES)
        deleter = partial(PerTask, Deleter(table_uri=store.table_uri, storage_options=store.storage_options))
        try:
            with typed_worker_errors():
                failed = map_files(self._spark, pa.table({"path": paths}), tasks, deleter, FAILED_DDL).toArrow().cast(FAILED)
        except UnsupportedStorageError:
            self._local.delete(store, paths)
            return
        if len(failed):
            raise vacuum_incomplete(store.table_uri, paths, [FailedDelete(**failure) for failure in failed.to_pylist()])

    def _is_shared(self, store: LogStore, files: int) -> bool:
        return files >= self._many and ObjectLocation.from_uri(store.table_uri) is not None


def shared_directories(filesystem: pafs.FileSystem, root: str, wanted: int) -> tuple[list[pafs.FileInfo], list[str]]:
    """Directories below the root that together contain all files, except those found during the search, which come first.

    Args:
        filesystem: The table's filesystem.
        root: The table's directory.
        wanted: Number of directories at which the search stops.
    """

    def look_into(directory: str) -> Iterable[pafs.FileInfo]:
        return filesystem.get_file_info(pafs.FileSelector(directory, allow_not_found=True))

    files: list[pafs.FileInfo] = []
    directories = [root]
    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in range(_MOST_LEVELS):
            found = [entry for some in threads.map(look_into, directories) for entry in some]
            files += [entry for entry in found if entry.type == pafs.FileType.File]
            directories = [entry.path for entry in found if entry.type == pafs.FileType.Directory]
            if not directories or len(directories) >= wanted:
                break
    return files, directories
