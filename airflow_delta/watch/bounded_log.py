"""A table's log as the triggerer reads it: small files in its own process, the rest in a separate process.

While Python parses JSON, no other thread runs, and a commit may have any size. A triggerer watches many tables in one process;
a user who can write to one of them must not be able to block the triggerer, or the threads that all tables share.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar, cast

from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.storage.renewed_options import current_options
from airflow_delta.core.storage.resolve import log_store_for

MOST_BYTES = 1 << 20
"""Most bytes of a log that one poll reads in this process: parsing these takes some hundredths of a second."""

_LONGEST = 600.0  # most seconds of a poll in a separate process
_SCRIPT = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from airflow_delta.watch.bounded_log import answer
answer()
"""

LARGE_LOGS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-log")
"""The thread for ``run_in_process`` in a triggerer: one process at a time, as each may need as much memory as the log."""

Answer = TypeVar("Answer")


class TooMuchToRead(Exception):  # noqa: N818 - never reaches a user: the poll is repeated
    """The poll needs more than ``MOST_BYTES``. Not an ``OSError``, which readers of a log would take for a file's error."""


class BoundedLog:
    """The log of one table, with limited reads in this process.

    Attributes:
        files: The table's files; reading raises ``TooMuchToRead`` once a poll has read ``MOST_BYTES``.
    """

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._bounded = _BoundedFiles(store)
        self.files = cast("LogStore", self._bounded)

    def run(self, work: Callable[[LogStore], Answer]) -> Answer:
        """Do the work in this process. Raises as the work does, and ``TooMuchToRead`` if it needs ``run_in_process``."""
        self._bounded.begin()
        return work(self.files)

    def run_in_process(self, work: Callable[[LogStore], Answer]) -> Answer:
        """Do the work in a separate process; work and answer must be picklable.

        Raises:
            OSError: The process died, or took too long (``TimeoutError``). Otherwise raises as the work does.
        """
        commits = getattr(self._store, "commits", None)
        request = pickle.dumps((self._store.table_uri, dict(current_options(self._store.storage_options)), commits, work))
        try:
            done = subprocess.run(  # noqa: S603 - this interpreter, with this package's input
                [sys.executable, "-c", _SCRIPT],
                input=pickle.dumps(sys.path) + request,
                capture_output=True,
                timeout=_LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"reading the log of {self._store.table_uri} took more than {_LONGEST:.0f} s") from error
        if done.returncode:
            end = done.stderr.decode(errors="replace")[-500:]
            raise OSError(f"the process that read the log of {self._store.table_uri} exited with {done.returncode}: {end}")
        found, raised = pickle.loads(done.stdout)  # noqa: S301 - from a process of this package
        if raised is not None:
            raise raised
        return cast("Answer", found)


def answer() -> None:
    """Do the work that is read from standard input; write its answer or exception to standard output."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with the answer
    uri, storage_options, commits, work = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    found, raised = None, None
    try:
        files = log_store_for(uri, storage_options)
        found = work(files if commits is None else ManagedLogStore(files, commits))
    except Exception as error:  # noqa: BLE001 - raised again in the requesting process
        raised = error
    with output:
        pickle.dump((found, raised), output)


class _BoundedFiles:
    """A ``LogStore`` that reads a limited number of bytes."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        self._left = MOST_BYTES
        self._sizes: dict[str, int] = {}  # from listings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        for status in self._store.list_from(directory, start):
            self._sizes[status.path] = status.size
            yield status

    def read(self, path: str) -> bytes:
        self._spend(path)
        return self._store.read(path)

    def open_input(self, path: str) -> BinaryIO:
        self._spend(path)
        return self._store.open_input(path)

    def _spend(self, path: str) -> None:
        size = self._sizes.get(path)
        if size is None:
            status = self._store.status(path)
            size = status.size if status else 0
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise TooMuchToRead
