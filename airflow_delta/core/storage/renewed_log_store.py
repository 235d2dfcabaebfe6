"""A ``LogStore`` whose credentials end before its work may."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow.fs

from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.renewed_options import Options, RenewedOptions


class RenewedLogStore:
    """A ``LogStore`` that is made anew whenever its storage options have changed; all else is the store's own.

    What one call has begun, such as a listing, goes on with the options of its beginning.
    """

    def __init__(self, make: Callable[[Options], LogStore], options: RenewedOptions) -> None:
        """Nothing is requested yet. ``make``: the store with the options of a moment."""
        self._make, self._options = make, options
        self._lock = threading.Lock()
        self._made: tuple[Options, LogStore] | None = None

    @classmethod
    def of(cls, make: Callable[[Options], LogStore], options: RenewedOptions) -> LogStore:
        """Such a store."""
        return cast("LogStore", cls(make, options))

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """Those that hold whenever they are used, also in other processes."""
        return self._options

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """As of every store; a method of this one, so that whoever keeps it has the filesystem of the moment."""
        return self._current().data_filesystem(uri)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._current(), name)

    def _current(self) -> LogStore:
        options = self._options.current
        with self._lock:
            if self._made is None or self._made[0] != options:
                self._made = (options, self._make(options))
            return self._made[1]
