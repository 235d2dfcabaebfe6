"""A table in this process's memory: for tests, ours and users'."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow.fs

from airflow_delta.core.clock import Clock, system_clock
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.log_store import FileStatus
from airflow_delta.core.storage.log_store_filesystem import log_store_filesystem


class InMemoryLogStore:
    """A ``LogStore`` over a dictionary; thread-safe."""

    def __init__(
        self, table_uri: str = "memory://table", *, clock: Clock = system_clock, allowed_prefixes: Iterable[str] = ()
    ) -> None:
        self._allowed_prefixes = tuple(allowed_prefixes)
        self._table_uri = table_uri.rstrip("/")
        self._clock = clock
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    @property
    def table_uri(self) -> str:
        """The table's root as the user wrote it, without a trailing slash."""
        return self._table_uri

    def read(self, path: str) -> bytes:
        """The whole content."""
        with self._lock:
            if path not in self._files:
                raise FileNotFoundError(path)
            return self._files[path][0]

    def open_input(self, path: str) -> BinaryIO:
        """The file for random reads."""
        return io.BytesIO(self.read(path))

    def exists(self, path: str) -> bool:
        """Whether the file is there now."""
        with self._lock:
            return path in self._files

    def status(self, path: str) -> FileStatus | None:
        """The file as a listing would show it now."""
        with self._lock:
            found = self._files.get(path)
        return FileStatus(path, len(found[0]), found[1]) if found else None

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Create the file atomically; of concurrent writers exactly one succeeds."""
        with self._lock:
            if path in self._files:
                raise FileExistsError(path)
            self._files[path] = (bytes(content), self._clock())

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file atomically."""
        with self._lock:
            self._files[path] = (bytes(content), self._clock())

    def open_output(self, path: str) -> BinaryIO:
        """A stream whose content becomes the file on close."""
        return _WholeFile(self, path)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The files directly below ``directory``, from the name ``start`` on, sorted by name."""
        prefix = f"{directory.rstrip('/')}/" if directory else ""
        for status in sorted(self.list_all(directory), key=lambda status: status.path):
            name = status.path.removeprefix(prefix)
            if "/" not in name and name >= start:
                yield status

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """Every file below ``directory`` from ``start`` on."""
        prefix = f"{directory.rstrip('/')}/" if directory else ""
        with self._lock:
            files = list(self._files.items())
        for path, (content, modification_time) in files:
            if path.startswith(prefix) and path[len(prefix) :] >= start:
                yield FileStatus(path, len(content), modification_time)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files; missing ones are ignored."""
        with self._lock:
            for path in paths:
                self._files.pop(path, None)

    @property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """URIs outside of the root from which the table's files may be read."""
        return self._allowed_prefixes

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """Empty, as none are needed."""
        return {}

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """Arrow's filesystem of the table's data files, or of another file, and the path in it."""
        return (log_store_filesystem(self), "") if uri is None else data_filesystem(uri)


class _WholeFile(io.BytesIO):
    """Becomes the file on close; a stream that is dropped without being closed leaves nothing."""

    def __init__(self, store: InMemoryLogStore, path: str) -> None:
        super().__init__()
        self._store = store
        self._path = path

    def close(self) -> None:
        if not self.closed:
            self._store.write(self._path, self.getvalue())
        super().close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def __del__(self) -> None:
        super().close()
