"""How many tasks share some work, and which takes what: the one rule for every job of ours.

Bytes decide. The cores of the moment only keep little work from lying in one task: they are a lower bound, never an upper one,
as a cluster may grow while it works, and its size says nothing about a table's.

Where Spark's own Parquet reader reads, Spark splits files as its session says: ``spark.sql.files.maxPartitionBytes``, and
``maxPartitionNum`` for a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import TypeVar

import numpy as np
import numpy.typing as npt

TASK_BYTES = 64 << 20
"""What a task reads where there is enough for all."""
OPENING_BYTES = 1 << 20
"""Opening a data file costs as much as reading so many bytes of one."""
FOOTER_BYTES = 128 << 10
"""Reading nothing of a file but its footer, likewise, with some threads."""
DELETED_FILE_BYTES = 16 << 10
"""Deleting a file by requests of a thousand, likewise."""
LISTED_FILE_BYTES = 8 << 10
"""Listing a file by pages of a thousand, likewise."""
ACTION_BYTES = 500
"""An action of a log, likewise."""
MAX_TASKS = 20_000
"""More of them in one stage take a driver's memory, and its time, for themselves."""
UNKNOWN_CORES = 16
"""Where the number is unknown, as in the planner of a Python data source."""

_MOST_ROUNDS = 4
_Value = TypeVar("_Value")


def task_count(work: float, units: int, cores: int) -> int:
    """How many tasks share some work.

    One for each core where it is little, as a task costs as much as reading some MiB; some for each where it is more, so that a
    slow one does not hold up the rest; one for each 64 MiB where it is much; and never more than ``MAX_TASKS``.

    Args:
        work: Bytes that are read, or what costs as much.
        units: Of how many parts it consists that stay whole, such as files: no more tasks than these.
        cores: How many there are at the moment.
    """
    rounds = min(_MOST_ROUNDS, ceil(work / (cores * TASK_BYTES)) or 1)
    return max(1, min(units, MAX_TASKS, max(rounds * cores, int(work // TASK_BYTES))))


def file_work(sizes: npt.ArrayLike, share: float = 1.0) -> npt.NDArray[np.float64]:
    """What reading a part (``share``) of each of these files costs, in bytes; no less than opening it, whatever a log says."""
    return np.maximum(np.asarray(sizes, np.float64), 0) * share + OPENING_BYTES


def packed(work: npt.NDArray[np.float64], tasks: int) -> npt.NDArray[np.int64]:
    """For each unit the number of its task: ascending from 0 without gaps, about equal work for all, at most ``tasks``.

    No task has more to do than its equal share and its largest unit beside that.

    Args:
        work: Of each unit; at least 0.
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
    """The values, one for each unit, as ``packed`` deals them out to tasks."""
    bounds = [0, *(np.flatnonzero(np.diff(packed(work, tasks), append=-1)) + 1).tolist()]
    return [values[start:end] for start, end in pairwise(bounds)]
