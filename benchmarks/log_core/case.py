"""A case of the benchmark, and the size of its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the generated tables are.

    Attributes:
        files: Files in the large tables' checkpoints.
        commits: Commits of the table without a checkpoint.
    """

    files: int
    commits: int


def nothing(table: Path) -> None:
    """The ``reset`` of a case that leaves nothing to undo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One piece of work that both sides do.

    A side is ``"module:function"``. The function is called with the table's path in a fresh process, and returns the work as a
    callable without arguments. Only that is timed, and its answer (JSON) must be the same on both sides.

    Attributes:
        theirs: None where there is no peer; then ``time`` is in seconds.
        time: Target: our median time over theirs.
        memory: Target: our peak memory over theirs; None where the case has none.
        make: Makes the table below a directory, unless it exists already, and returns its path.
        reset: Called with that path before each measurement.
    """

    name: str
    ours: str
    theirs: str | None
    time: float
    memory: float | None = None
    make: Callable[[Path, Size], Path]
    reset: Callable[[Path], None] = nothing
