"""The Arrow memory pool for reading large checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import pyarrow as pa


class _MemoryPool:
    """Uses jemalloc instead of mimalloc while there are readers.

    mimalloc, Arrow's default, requests huge pages, for which the kernel must make room: reading a million files takes 0.4 to
    1.1 s, depending on how fragmented the memory is; with jemalloc always 0.45 s. Arrow's pool can only be set for the whole
    process, not for one reader. Other threads are not harmed, because a buffer remembers its own allocator.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._readers = 0
        self._before: pa.MemoryPool | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._readers += 1
            if self._readers == 1 and (pool := _jemalloc_pool()):
                self._before = pa.default_memory_pool()
                pa.set_memory_pool(pool)
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                if not self._readers and self._before:
                    pa.set_memory_pool(self._before)
                    self._before = None


def _jemalloc_pool() -> pa.MemoryPool | None:
    """The pool; None if another pool is the default or chosen by the user, or Arrow was built without jemalloc."""
    is_default = pa.default_memory_pool().backend_name == "mimalloc" and "ARROW_DEFAULT_MEMORY_POOL" not in os.environ
    return pa.jemalloc_memory_pool() if is_default and "jemalloc" in pa.supported_memory_backends() else None


memory_pool = _MemoryPool()
"""A context in which Arrow allocates from jemalloc: ``with memory_pool(): ...``."""
