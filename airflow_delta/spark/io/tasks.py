"""How many tasks share some work, and which task gets what: one rule for all jobs of this package.

The number of bytes decides. The number of cores at the moment only makes sure that little work is not left to a single task: it
is a lower bound, never an upper one, as a cluster may grow during the work, and its size says nothing about a table's.

For Spark's own Parquet reader, the session's settings decide how files are split: ``spark.sql.files.maxPartitionBytes``, and
``maxPartitionNum`` as a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import TypeVar

import numpy as np
import numpy.typing as npt

TASK_BYTES = 64 << 20
"""Bytes that a task reads if there is enough work for all."""
OPENING_BYTES = 1 << 20
"""Bytes whose reading costs as much as opening a data file."""
FOOTER_BYTES = 128 << 10
"""Bytes whose reading costs as much as reading only a file's footer, with several threads."""
DELETED_FILE_BYTES = 16 << 10
"""Bytes whose reading costs as much as deleting a file, a thousand per request."""
LISTED_FILE_BYTES = 8 << 10
"""Bytes whose reading costs as much as listing a file, a thousand per page."""
ACTION_BYTES = 500
"""Bytes whose reading costs as much as processing an action of a log."""
MAX_TASKS = 20_000
"""Most tasks in a stage; more would take too much memory and time of the driver."""
UNKNOWN_CORES = 16
"""Assumed number of cores if unknown, as in the planner of a Python data source."""

_MOST_ROUNDS = 4
_Value = TypeVar("_Value")


def task_count(work: float, units: int, cores: int) -> int:
    """How many tasks share some work.

    One for each core if there is little work, as starting a task costs as much as reading a few MiB; several for each core if
    there is more, so that a slow task does not delay all; one for each 64 MiB if there is much; and never more than
    ``MAX_TASKS``.

    Args:
        work: Bytes to read, or the equivalent cost.
        units: Number of indivisible parts, such as files; there are no more tasks than that.
        cores: Number of cores at the moment.
    """
    rounds = min(_MOST_ROUNDS, ceil(work / (cores * TASK_BYTES)) or 1)
    return max(1, min(units, MAX_TASKS, max(rounds * cores, int(work // TASK_BYTES))))


def file_work(sizes: npt.ArrayLike, share: float = 1.0) -> npt.NDArray[np.float64]:
    """The cost of reading a part (``share``) of each of these files, in bytes; at least that of opening it."""
    return np.maximum(np.asarray(sizes, np.float64), 0) * share + OPENING_BYTES


def packed(work: npt.NDArray[np.float64], tasks: int) -> npt.NDArray[np.int64]:
    """For each unit the number of its task: ascending from 0 without gaps, with about equal work for all, at most ``tasks``.

    No task gets more than its equal share plus one unit.

    Args:
        work: Work of each unit; at least 0.
        tasks: At least 1.
    """
    if not len(work):
        return np.array([], np.int64)
    if not work.any():
        work = np.ones_like(work)
    middles = np.cumsum(work) - work / 2
    placed = np.minimum((middles * (tasks / work.sum())).astype(np.int64), tasks - 1)
    return np.unique(placed, return_inverse=True)[1]


def in_tasks(values: Sequence[_Value], work: npt.NDArray[np.float64], tasks: int) -> list[Sequence[_Value]]:
    """The values, one for each unit, grouped into tasks by ``packed``."""
    bounds = [0, *(np.flatnonzero(np.diff(packed(work, tasks), append=-1)) + 1).tolist()]
    return [values[start:end] for start, end in pairwise(bounds)]
