"""The base of stores that wrap another ``LogStore``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.fs

from airflow_delta.core.storage.log_store import FileStatus, LogStore


class LogStoreLayer:
    """The methods that a wrapper around a ``LogStore`` passes on unchanged; subclasses add the others."""

    def __init__(self, store: LogStore) -> None:
        """``store`` is the wrapped one."""
        self._store = store

    def status(self, path: str) -> FileStatus | None:
        """As of ``LogStore``."""
        return self._store.status(path)

    def exists(self, path: str) -> bool:
        """As of ``LogStore``."""
        return self.status(path) is not None

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """As of ``LogStore``."""
        return self._store.list_all(directory, start)

    @property
    def table_uri(self) -> str:
        """As of ``LogStore``."""
        return self._store.table_uri

    @property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """As of ``LogStore``."""
        return self._store.allowed_prefixes

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """As of ``LogStore``."""
        return self._store.storage_options

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """As of ``LogStore``."""
        return self._store.data_filesystem(uri)
