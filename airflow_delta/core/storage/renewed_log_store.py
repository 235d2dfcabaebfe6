"""A ``LogStore`` whose credentials end before its work may."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

from airflow_delta.core.storage.log_store import LogStore

Options = Mapping[str, Any]


class RenewedLogStore:
    """A ``LogStore`` that is made anew whenever its storage options have changed; all else is the store's own.

    What one call has begun, such as a listing, goes on with the options of its beginning.
    """

    def __init__(self, make: Callable[[Options], LogStore], options: Callable[[], Options]) -> None:
        """Nothing is requested yet.

        Args:
            make: The store with these options.
            options: Those that hold now; called before each use, so that it has to be cheap while they hold.
        """
        self._make, self._options = make, options
        self._lock = threading.Lock()
        self._made: tuple[Options, LogStore] | None = None

    @classmethod
    def of(cls, make: Callable[[Options], LogStore], options: Callable[[], Options]) -> LogStore:
        """Such a store."""
        return cast("LogStore", cls(make, options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._current(), name)

    def _current(self) -> LogStore:
        options = self._options()
        with self._lock:
            if self._made is None or self._made[0] != options:
                self._made = (options, self._make(options))
            return self._made[1]
