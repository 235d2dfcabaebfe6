"""A table's log as the triggerer reads it: what is small in its own process, the rest in a separate process.

Python parses JSON without letting any other thread run, and a commit may be of any size. A triggerer watches many tables in one
process; a user who can write below one of them must not be able to stop it, nor to occupy the threads that all of them share.
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
"""Most bytes of one log that one poll reads here: some hundredths of a second for the parser, whatever the files hold."""

_LONGEST = 600.0  # seconds of one poll in a separate process
_SCRIPT = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from airflow_delta.watch.bounded_log import answer
answer()
"""

LARGE_LOGS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-log")
"""Where a triggerer calls ``run_in_process``: one at a time, as such a process may take as much memory as the log needs."""

Answer = TypeVar("Answer")


class TooMuchToRead(Exception):  # noqa: N818 - users never see it: the poll is done elsewhere
    """The poll needs more than ``MOST_BYTES``. Not an ``OSError``, which the readers of a log would take for one of a file."""


class BoundedLog:
    """The log of one table.

    Attributes:
        files: The table's files; reading raises ``TooMuchToRead`` once a poll has read ``MOST_BYTES``.
    """

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._bounded = _BoundedFiles(store)
        self.files = cast("LogStore", self._bounded)

    def run(self, work: Callable[[LogStore], Answer]) -> Answer:
        """What the work finds in the log. Raises as the work, and ``TooMuchToRead`` where it needs ``run_in_process``."""
        self._bounded.begin()
        return work(self.files)

    def run_in_process(self, work: Callable[[LogStore], Answer]) -> Answer:
        """What the work finds, in a separate process. Work and answer can be pickled.

        Raises:
            OSError: The process died, or took too long; else as the work.
        """
        commits = getattr(self._store, "commits", None)
        request = pickle.dumps((self._store.table_uri, dict(current_options(self._store.storage_options)), commits, work))
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter; what it is given is ours
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
        found, raised = pickle.loads(done.stdout)  # noqa: S301 - of our own process
        if raised is not None:
            raise raised
        return cast("Answer", found)


def answer() -> None:
    """Do the work on the standard input, and write what it found, or raised, to the standard output."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print does not belong to the answer
    uri, storage_options, commits, work = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
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
        self._sizes: dict[str, int] = {}  # as they were listed

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
