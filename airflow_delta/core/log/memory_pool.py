"""The Arrow memory pool for reading large checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import pyarrow as pa


class _MemoryPool:
    """Uses jemalloc instead of mimalloc while there are readers.

    mimalloc, Arrow's default, requests huge pages, which the kernel has to make room for: reading a million files takes 0.4 or
    1.1 s by how fragmented the machine's memory is, with jemalloc 0.45 s. Arrow has no choice for one reader, only for the
    process; a buffer knows its own allocator, so those of other threads come to no harm, whatever they get meanwhile.
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
    """None where the default is another one, or chosen by the user, or Arrow was built without jemalloc."""
    is_default = pa.default_memory_pool().backend_name == "mimalloc" and "ARROW_DEFAULT_MEMORY_POOL" not in os.environ
    return pa.jemalloc_memory_pool() if is_default and "jemalloc" in pa.supported_memory_backends() else None


memory_pool = _MemoryPool()
"""A context in which Arrow allocates from jemalloc: ``with memory_pool(): ...``."""
