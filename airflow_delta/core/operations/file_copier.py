"""Copies files of one table below the root of another, in this process or elsewhere."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.errors import CorruptDataFileError, DeltaError
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.storage_failures import read_data, storage_failure

FILE_TO_COPY = pa.schema([("path", pa.string()), ("size", pa.int64()), ("is_data", pa.bool_())])
"""Columns of files to copy.

The path as in the source's log; the exact size in bytes of a data file, or the least size of a deletion vector file.
"""

COPIED_FILE = pa.schema([("path", pa.string()), ("name", pa.string()), ("size", pa.int64())])
"""Columns of copies: the source's path, the name in the folder, and the size in bytes."""

_BUFFER = 8 << 20  # bytes of a file that are in memory at once
_THREADS = 8

Answer = TypeVar("Answer")


class FileCopier(Protocol):
    """Copies files byte by byte. The caller decides what is copied, and what becomes of the copies."""

    def copy(self, source: LogStore, target: LogStore, folder: str, files: pa.Table) -> pa.Table:
        """Copy the files, each under a unique name that no other attempt uses.

        Copies that are not in the result, such as those of a task that ran twice, are ignored.

        Args:
            source: The table that the files belong to.
            target: The table that receives the copies.
            folder: Folder of the copies, below the target's root.
            files: Columns ``FILE_TO_COPY``; at least one row.

        Returns:
            Columns ``COPIED_FILE``: a row for each file, in any order.

        Raises:
            MissingDataFileError: A file is gone.
            CorruptDataFileError: A file does not have the size in the log.
            PathOutsideTableError: A file lies where the source may not read.
            StorageAccessError: One of the storages denies access.
            StorageFullError: The target's storage is full.
            StorageUnavailableError: One of the storages does not answer.
        """
        ...


class LocalFileCopier:
    """Copies in this process, several files at once."""

    def copy(self, source: LogStore, target: LogStore, folder: str, files: pa.Table) -> pa.Table:
        """Copy the files in threads, each with one buffer."""
        copies = FileCopies(
            locate=FileLocator.from_store(source),
            source_uri=source.table_uri,
            target=target.data_filesystem,
            folder=folder,
            target_uri=target.table_uri,
        )
        return copies.make(files, threads=_THREADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopies:
    """Copies a table's files to one directory.

    Attributes:
        locate: Resolves paths of the source's log.
        source_uri: URI of the source, for errors.
        target: Returns the filesystem and root of the target; called for each copy, as storage credentials may expire.
        folder: Directory below the target's root.
        target_uri: URI of the target, for errors.
    """

    locate: FileLocator
    source_uri: str
    target: Callable[[], tuple[pafs.FileSystem, str]]
    folder: str
    target_uri: str

    def make(self, files: pa.Table, *, threads: int) -> pa.Table:
        """Copy these files (``FILE_TO_COPY``); returns the copies (``COPIED_FILE``). Raises as ``FileCopier``."""
        filesystem, root = self.target()
        if isinstance(filesystem, pafs.LocalFileSystem):  # object stores have no directories, and HDFS creates them
            with self._writing():
                filesystem.create_dir(f"{root}/{self.folder}")
        with ThreadPoolExecutor(threads) as pool:  # after a failure, copies that have not begun are not made
            copied = list(pool.map(self._copied, files.to_pylist()))
        return pa.Table.from_pylist(copied, schema=COPIED_FILE)

    def _copied(self, file: Mapping[str, Any]) -> dict[str, Any]:
        path, size, is_data = file["path"], file["size"], file["is_data"]
        filesystem, place = self.locate(path)
        name = f"part-{uuid.uuid4()}.parquet" if is_data else f"deletion_vector_{uuid.uuid4()}.bin"
        with self._read(path, lambda: filesystem.open_input_file(place)) as original:
            found = self._read(path, original.size)
            if found != size if is_data else found < size:
                least = "" if is_data else "at least "
                raise self._corrupt(path, f"it has {found} bytes, and the log says {least}{size}")
            self._copy(path, original, found, name)
        return {"path": path, "name": name, "size": found}

    def _copy(self, path: str, original: pa.NativeFile, size: int, name: str) -> None:
        filesystem, root = self.target()
        place = f"{root}/{self.folder}/{name}"
        try:
            with self._writing(), filesystem.open_output_stream(place) as copy:
                for start in range(0, size, _BUFFER):
                    copy.write(self._bytes(path, original, start, min(start + _BUFFER, size)))
        except BaseException:  # closing an unfinished file would complete it, in Arrow
            with suppress(OSError):
                filesystem.delete_file(place)
            raise

    def _bytes(self, path: str, original: pa.NativeFile, start: int, end: int) -> bytes:
        content: bytes = self._read(path, partial(original.read_at, end - start, start))
        if len(content) != end - start:
            raise self._corrupt(path, f"it ended after {start + len(content)} bytes while it was copied")
        return content

    def _read(self, path: str, read: Callable[[], Answer]) -> Answer:
        return read_data(read, table=self.source_uri, file=path)

    def _corrupt(self, path: str, detail: str) -> CorruptDataFileError:
        return CorruptDataFileError(table=self.source_uri, file=path, detail=detail)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Storage failures in this block are those of the target."""
        try:
            yield
        except DeltaError:
            raise
        except (OSError, pa.ArrowException) as error:
            failure = storage_failure(error, self.target_uri)
            if failure is None:
                raise
            raise failure from error
