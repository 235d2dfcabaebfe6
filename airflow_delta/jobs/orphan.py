"""Ends a driver that has lost its JVM or its Airflow worker; a retry of the task does the work again."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from airflow_delta.jobs.worker_processes import WorkerProcesses

_INTERVAL = 0.5
"""Seconds between two checks."""

_LAST_WORDS = 1.0
"""Seconds that writing the last line of the log may take: no process may be left to read it."""

_logger = logging.getLogger(__name__)


def exit_with_jvm() -> None:
    """End this process soon after the JVM that started it is gone.

    A commit needs no JVM, so a driver whose task was killed (``on_kill`` kills the JVM) could otherwise still make one. Does
    nothing if this process was not started by a JVM, as in ``python delta_merge.py``.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        threading.Thread(target=_watch_jvm, args=(os.getppid(),), name="exit-with-jvm", daemon=True).start()


def exit_with_worker(end: Callable[[], object] = lambda: os._exit(os.EX_TEMPFAIL)) -> None:
    """End this process, and with it its JVM, at once, soon after one of its worker's processes has ended.

    Does nothing if the environment names no worker: on a cluster, by hand, on systems other than Linux.

    Args:
        end: Ends the process.
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
