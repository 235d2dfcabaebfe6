"""Progress of a job's long steps, as lines in its log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)

FIRST, LONGEST = 10.0, 120.0
"""Seconds after which a step is logged, and most seconds between two lines about it."""


@contextmanager
def log_progress(context: Any, *, first: float = FIRST) -> Iterator[None]:
    """While the body runs, log how many tasks of Spark's active stages are done: seldom, and not for short stages.

    Args:
        context: The ``SparkContext``; its status tracker asks the JVM, not the cluster.
        first: Seconds after which a stage is logged.
    """
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(context.statusTracker(), ended, first), name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def log_connect_progress(
    spark: SparkSession, *, first: float = FIRST, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """As ``log_progress``, in a Spark Connect session, whose server reports progress every two seconds.

    Args:
        spark: The session.
        first: As for ``log_progress``.
        clock: Returns seconds.
    """
    seen = _Stages(first, clock)

    def log(*, stages: Iterable[Any], **_: Any) -> None:
        for stage in stages:
            if not stage.done:
                seen.note(stage.stage_id, stage.num_completed_tasks, stage.num_tasks)

    spark.registerProgressHandler(log)
    try:
        yield
    finally:
        spark.removeProgressHandler(log)


class _Stages:
    """The stages seen so far, and when the next line about each is due."""

    def __init__(self, first: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._first = first
        self._clock = clock
        self._began: dict[int, float] = {}
        self._due: dict[int, float] = {}

    def note(self, number: int, done: int, tasks: int) -> None:
        """Log how many of a stage's tasks are done, if a line is due."""
        now = self._clock()
        elapsed = now - self._began.setdefault(number, now)
        if elapsed < self._due.get(number, self._first):
            return
        self._due[number] = elapsed + min(elapsed, LONGEST)
        _logger.info("Stage %d of Spark: %d of %d tasks done in %.0f s", number, done, tasks, elapsed)


def _watch(tracker: Any, ended: threading.Event, first: float) -> None:
    seen = _Stages(first)
    while not ended.wait(first / 10):
        try:
            stages = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
        except Exception:  # noqa: BLE001 - the JVM is gone, which the statement itself reports
            return
        for number, stage in stages.items():
            if stage is not None:
                seen.note(number, stage.numCompletedTasks, stage.numTasks)
