"""What a case is."""

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
    """What a case does between two measurements when there is nothing to tidy up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that both sides do.

    A side is ``"module:function"``. The function is called with the table's path in a fresh process, and returns the work: a
    callable without arguments, which alone is timed, and whose answer (JSON) must be the same on both sides.

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
