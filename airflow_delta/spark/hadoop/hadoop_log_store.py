"""A table's log on a filesystem of the JVM's Hadoop: HDFS, without native libraries for fsspec or Arrow.

As in ``HDFSLogStore`` of Delta Lake, a commit is a hidden file that is renamed, and the rename fails if the name is taken.
"""

from __future__ import annotations

import io
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import cached_property
from typing import Any, BinaryIO, cast

import pyarrow.fs
from pyspark.sql import SparkSession

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.log_store import FileStatus
from airflow_delta.core.storage.log_store_filesystem import log_store_filesystem
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.spark.hadoop.java_files import JavaInput, JavaOutput, as_os_errors
from airflow_delta.spark.hadoop.listed_statuses import ListedStatus, listed_statuses
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.jvm import hadoop_configuration, hadoop_gateway

HADOOP_SCHEMES = ("hdfs", "viewfs")
"""Filesystems that only Hadoop can access here, and whose rename is atomic and fails if the name is taken."""

# Hadoop's local filesystem checks before it renames: there, this process creates one file at a time.
_LOCAL_TURNS = threading.Lock()
_BUFFER = 1 << 20  # bytes transferred to the JVM at once


class HadoopLogStore:
    """A ``LogStore`` over ``org.apache.hadoop.fs``, with the configuration and identity of the Spark session.

    For HDFS and views of it. Hadoop's own local filesystem works, too, but only if a single process creates files.
    """

    def __init__(self, spark: SparkSession, table_uri: str, *, allowed_prefixes: Iterable[str] = ()) -> None:
        """Nothing is read or created yet.

        Raises:
            UnsupportedStorageError: The scheme has no known atomic create, or Hadoop cannot access the filesystem.
            SparkConnectUnsupportedError: The session's JVM cannot be accessed.
        """
        scheme = scheme_of(table_uri)
        if scheme not in (*HADOOP_SCHEMES, "file"):
            raise UnsupportedStorageError(uri=table_uri, detail=f"no atomic create is known for {scheme}:// in Hadoop")
        self._spark = spark
        self._table_uri = table_uri.rstrip("/")
        self._allowed_prefixes = tuple(allowed_prefixes)
        self._root = hadoop_uri(self._table_uri)
        jvm, self._gateway = hadoop_gateway(spark, table_uri)
        configuration = hadoop_configuration(spark)
        self._fs = jvm.org.apache.hadoop.fs
        self._turns = _LOCAL_TURNS if scheme == "file" else nullcontext()
        try:
            with as_os_errors():
                self._filesystem = self._java_path("").getFileSystem(configuration)
                # The only interface whose rename does not replace an existing file.
                self._context = self._fs.FileContext.getFileContext(self._java_path("").toUri(), configuration)
        except OSError as error:
            raise UnsupportedStorageError(uri=table_uri, detail=str(error)) from error

    @property
    def table_uri(self) -> str:
        """The table's root as the user wrote it, without a trailing slash."""
        return self._table_uri

    def read(self, path: str) -> bytes:
        """The whole content."""
        with as_os_errors(path):
            stream = self._filesystem.open(self._java_path(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def open_input(self, path: str) -> BinaryIO:
        """The file for random reads."""
        with as_os_errors(path):
            size = self._filesystem.getFileStatus(self._java_path(path)).getLen()
            stream = self._filesystem.open(self._java_path(path))
        return io.BufferedReader(JavaInput(stream, size), _BUFFER)

    def exists(self, path: str) -> bool:
        """Whether the file is there now."""
        return self.status(path) is not None

    def status(self, path: str) -> FileStatus | None:
        """The file as a listing would show it now."""
        try:
            with as_os_errors(path):
                found = self._filesystem.getFileStatus(self._java_path(path))
                return FileStatus(path, found.getLen(), found.getModificationTime()) if found.isFile() else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Create the file atomically; of concurrent writers exactly one succeeds."""
        self._put(path, content, self._fs.Options.Rename.NONE)

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file atomically."""
        self._put(path, content, self._fs.Options.Rename.OVERWRITE)

    def open_output(self, path: str) -> BinaryIO:
        """A stream whose content becomes the file on close."""
        temporary = _temporary_beside(path)

        def take_place() -> None:
            self._rename(temporary, path, self._fs.Options.Rename.OVERWRITE)

        def give_up() -> None:
            self.delete([temporary])

        return cast("BinaryIO", JavaOutput(self._create(temporary), take_place, give_up))

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The files directly below ``directory``, from the name ``start`` on."""
        files = (entry for entry in self._list(directory) if not entry.is_directory and entry.name >= start)
        prefix = f"{directory.rstrip('/')}/" if directory else ""
        for entry in sorted(files, key=lambda file: file.name):
            yield FileStatus(f"{prefix}{entry.name}", entry.size, entry.modification_time)

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """Every file below ``directory`` from ``start`` on; makes one JVM call for each directory."""
        pending = [directory.rstrip("/")]
        first = f"{pending[0]}/{start}" if pending[0] and start else start
        while pending:
            parent = pending.pop()
            for entry in self._list(parent):
                path = f"{parent}/{entry.name}" if parent else entry.name
                if path < first[: len(path)]:  # so does everything below it
                    continue
                if entry.is_directory:
                    pending.append(path)
                elif path >= first:
                    yield FileStatus(path, entry.size, entry.modification_time)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files; missing ones are ignored."""
        for path in paths:
            with as_os_errors(path):
                self._filesystem.delete(self._java_path(path), False)

    @property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """URIs outside of the root from which the table's files may be read."""
        return self._allowed_prefixes

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """Empty: other processes access the files with their own Hadoop."""
        return {}

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """Arrow's filesystem if it finds the native library of HDFS (``libhdfs``); else this store's, on this machine only.

        Raises:
            UnsupportedStorageError: The URI is in a storage that neither supports.
        """
        if uri is None:
            return self._data_filesystem
        try:
            return data_filesystem(uri)
        except UnsupportedStorageError:
            if scheme_of(uri) not in HADOOP_SCHEMES:
                raise
        scheme, _, rest = uri.partition("://")
        authority, _, path = rest.partition("/")
        return log_store_filesystem(HadoopLogStore(self._spark, f"{scheme}://{authority}")), path

    @cached_property
    def _data_filesystem(self) -> tuple[pyarrow.fs.FileSystem, str]:
        try:
            return data_filesystem(self._root)
        except UnsupportedStorageError:
            if scheme_of(self._root) not in HADOOP_SCHEMES:
                raise
            return log_store_filesystem(self), ""

    def _java_path(self, path: str) -> Any:
        """Hadoop's path of a file; raises for a path outside of the table, which is a bug in the caller."""
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{path!r} is not a path below {self._table_uri}")
        return self._fs.Path(f"{self._root}/{path}")

    def _list(self, directory: str) -> Iterable[ListedStatus]:
        try:
            with as_os_errors(directory):
                found = self._filesystem.listStatus(self._java_path(directory))
                return listed_statuses(self._spark, found)
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def _create(self, path: str) -> Any:
        """A Java stream into a new file; its parent directories are created."""
        try:
            with as_os_errors(path):
                return self._filesystem.create(self._java_path(path), False)
        except FileExistsError as error:  # a parent is a file: the new name itself cannot exist, so this is no commit conflict
            raise NotADirectoryError(str(error)) from error

    def _put(self, path: str, content: bytes, how: Any) -> None:
        temporary = _temporary_beside(path)
        try:
            with as_os_errors(path):
                stream = self._create(temporary)
                try:
                    stream.write(content)
                finally:
                    stream.close()
            self._rename(temporary, path, how)
        except BaseException:
            with suppress(OSError):
                self.delete([temporary])
            raise

    def _rename(self, temporary: str, path: str, how: Any) -> None:
        options = self._gateway.new_array(self._fs.Options.Rename, 1)  # Java's varargs
        options[0] = how
        with self._turns, as_os_errors(path):
            self._context.rename(self._java_path(temporary), self._java_path(path), options)


def _temporary_beside(path: str) -> str:
    """A new hidden name in the same directory."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name}.{uuid.uuid4()}.tmp"
