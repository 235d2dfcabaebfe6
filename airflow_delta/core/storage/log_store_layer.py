"""A ``LogStore`` before another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.fs

from airflow_delta.core.storage.log_store import FileStatus, LogStore


class LogStoreLayer:
    """What a ``LogStore`` before another one leaves as it is, for those that change what is read or written."""

    def __init__(self, store: LogStore) -> None:
        """``store``: the other one."""
        self._store = store

    def status(self, path: str) -> FileStatus | None:
        """As of every store."""
        return self._store.status(path)

    def exists(self, path: str) -> bool:
        """As of every store."""
        return self.status(path) is not None

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """As of every store."""
        return self._store.list_all(directory, start)

    @property
    def table_uri(self) -> str:
        """As of every store."""
        return self._store.table_uri

    @property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """As of every store."""
        return self._store.allowed_prefixes

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """As of every store."""
        return self._store.storage_options

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """As of every store."""
        return self._store.data_filesystem(uri)
