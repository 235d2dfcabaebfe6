"""A driver that has lost its JVM must not go on, and one that has lost its worker need not: a retry does its work again."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from airflow_delta.jobs.worker_processes import WorkerProcesses

_INTERVAL = 0.5
"""Seconds between two looks."""

_LAST_WORDS = 1.0
"""Seconds that the last line of the log may take: nobody may be left to read it."""

_logger = logging.getLogger(__name__)


def exit_with_jvm() -> None:
    """End this process soon after the JVM that started it is gone.

    A commit needs no JVM, so a driver whose task was killed (``on_kill`` kills the JVM) could otherwise still make one.
    Does nothing where the JVM was not the one to start this process, as in ``python delta_merge.py``.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        threading.Thread(target=_watch_jvm, args=(os.getppid(),), name="exit-with-jvm", daemon=True).start()


def exit_with_worker(end: Callable[[], object] = lambda: os._exit(os.EX_TEMPFAIL)) -> None:
    """End this process, and with it its JVM, soon after one of its worker's processes is gone, as SIGKILL would.

    Does nothing where the environment names no worker: on a cluster, by hand, on other systems than Linux.

    Args:
        end: How it ends.
    """
    worker = WorkerProcesses.from_environment()
    if worker is not None:
        threading.Thread(target=_watch_worker, args=(worker, end), name="exit-with-worker", daemon=True).start()


def _watch_jvm(jvm: int) -> None:
    while os.getppid() == jvm:
        time.sleep(_INTERVAL)
    os._exit(os.EX_SOFTWARE)


def _watch_worker(worker: WorkerProcesses, end: Callable[[], object]) -> None:
    while (gone := worker.gone()) is None:
        time.sleep(_INTERVAL)
    text = "The process %d of the Airflow worker is gone: this driver ends, and a retry of its task looks for its commit"
    last_words = threading.Thread(target=_logger.error, args=(text, gone), daemon=True)
    last_words.start()
    last_words.join(_LAST_WORDS)
    end()
