"""How far long steps of a job are, as lines of its log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_logger = logging.getLogger(__name__)

FIRST, LONGEST = 10.0, 120.0
"""Seconds until a step is long, and most seconds between two lines about it."""


@contextmanager
def log_progress(context: Any, *, first: float = FIRST) -> Iterator[None]:
    """Log, while the body runs, how many tasks of Spark's active stages are done: rarely, and nothing of short stages.

    Args:
        context: The ``SparkContext``; its status tracker asks the JVM, not the cluster.
        first: Seconds after which a stage is worth a line.
    """
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(context.statusTracker(), ended, first), name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()


def _watch(tracker: Any, ended: threading.Event, first: float) -> None:
    began: dict[int, float] = {}
    due: dict[int, float] = {}
    while not ended.wait(first / 10):
        try:
            stages = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
        except Exception:  # noqa: BLE001 - the JVM is gone, or going: the statement itself says so
            return
        now = time.monotonic()
        began = {number: began.get(number, now) for number in stages}
        for number, stage in stages.items():
            elapsed = now - began[number]
            if stage is None or elapsed < due.get(number, first):
                continue
            due[number] = elapsed + min(elapsed, LONGEST)
            _logger.info(
                "Stage %d of Spark: %d of %d tasks done in %.0f s", number, stage.numCompletedTasks, stage.numTasks, elapsed
            )
