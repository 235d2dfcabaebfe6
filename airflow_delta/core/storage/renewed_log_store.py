"""A ``LogStore`` whose credentials may expire before the work is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow.fs

from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.renewed_options import Options, RenewedOptions


class RenewedLogStore:
    """A ``LogStore`` that is made anew whenever its storage options change, and otherwise behaves like the store itself.

    A call that has begun, such as a listing, continues with the options that it began with.
    """

    def __init__(self, make: Callable[[Options], LogStore], options: RenewedOptions) -> None:
        """Nothing is requested yet. ``make`` creates the store with the current options."""
        self._make, self._options = make, options
        self._lock = threading.Lock()
        self._made: tuple[Options, LogStore] | None = None

    @classmethod
    def of(cls, make: Callable[[Options], LogStore], options: RenewedOptions) -> LogStore:
        """Create such a store, typed as a ``LogStore``."""
        return cast("LogStore", cls(make, options))

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """Options that stay current whenever they are used, also in other processes."""
        return self._options

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """As of ``LogStore``; defined here, so that a stored bound method always uses the current options."""
        return self._current().data_filesystem(uri)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._current(), name)

    def _current(self) -> LogStore:
        options = self._options.current
        with self._lock:
            if self._made is None or self._made[0] != options:
                self._made = (options, self._make(options))
            return self._made[1]
