"""A vacuum executor on Spark: workers share the listing and the deletion; the core decides which files are deleted."""

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
"""So many files are worth a Spark job: a listing page of an object store holds a thousand, and takes a tenth of a second."""

_MOST_LEVELS = 4
_THREADS = 16


class SparkVacuumExecutor:
    """Lists and deletes in Spark tasks where the table is large and lies in an object store; elsewhere in this process.

    A disk is not faster with many readers, and workers may see another one. Hadoop's filesystems are the driver's alone.
    """

    def __init__(self, spark: SparkSession, *, many: int = MANY_FILES) -> None:
        """``many``: with fewer files (live ones, for the listing; files to delete, for the deletion) this process does it."""
        self._spark = spark
        self._many = many
        self._local = LocalVacuumExecutor()

    def list_files(self, snapshot: Snapshot) -> pa.Table:
        """Every file below the root; each task lists some directories with all that is in them."""
        store = snapshot.store
        live = len(snapshot.files(columns=["size"]))
        if not self._is_shared(store, live):
            return self._local.list_files(snapshot)
        filesystems = TableFilesystems(hadoop_uri(store.table_uri), store.storage_options)
        filesystem, root = filesystems()
        if isinstance(filesystem, pafs.PyFileSystem):  # fsspec's: Arrow learns no times from it, and workers may lack it
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
        """Delete the files by requests of many; this process does it where the workers lack the package of the storage.

        Raises:
            VacuumIncompleteError: Some are left.
            StorageAccessError: The storage refuses to delete any.
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
    """Directories below the root that together hold all files but those that were met on the way, which come first.

    Args:
        filesystem: Where the table lies.
        root: Its directory.
        wanted: With so many directories the search for more stops.
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
