"""Runs both sides of a case alternately, each run in a fresh process."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.log_core.case import Case

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one process took (seconds, CPU seconds, peak memory in bytes), and its answer."""

    seconds: float
    cpu: float
    peak: int
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All runs of a case; ``theirs`` is empty where it has no peer."""

    case: Case
    ours: tuple[Run, ...]
    theirs: tuple[Run, ...]

    @property
    def has_equal_answers(self) -> bool:
        """Whether every run answered the same."""
        return all(process.answer == self.ours[0].answer for process in (*self.ours, *self.theirs))

    @property
    def time(self) -> float:
        """Our median time over theirs; in seconds where the case has no peer."""
        return self._median(lambda run: run.seconds)

    @property
    def memory(self) -> float:
        """Our median peak over theirs; in bytes where the case has no peer."""
        return self._median(lambda run: run.peak)

    @property
    def is_met(self) -> bool:
        """Whether the answers are equal and the targets reached."""
        has_memory = self.case.memory is None or self.memory <= self.case.memory
        return self.has_equal_answers and self.time <= self.case.time and has_memory

    def _median(self, of: Callable[[Run], float]) -> float:
        ours = statistics.median(map(of, self.ours))
        return ours / statistics.median(map(of, self.theirs)) if self.theirs else ours

    def lines(self) -> list[str]:
        """The outcome as text: a line per side, then one per ratio."""
        unit = "times theirs" if self.theirs else "s"
        lines = [f"{self.case.name}", *_side("ours", self.ours), *(_side("theirs", self.theirs) if self.theirs else [])]
        lines.append(f"  time   {self.time:6.3f} {unit} (target {self.case.time})")
        if self.case.memory is not None:
            lines.append(f"  memory {self.memory:6.3f} {unit} (target {self.case.memory})")
        if not self.has_equal_answers:
            lines.append(f"  DIFFERENT ANSWERS: {self.ours[0].answer} and {self.theirs[0].answer if self.theirs else '-'}")
        return [*lines, "  met" if self.is_met else "  MISSED"]


def _side(name: str, runs: tuple[Run, ...]) -> list[str]:
    seconds, cpu = (statistics.median(getattr(run, field) for run in runs) for field in ("seconds", "cpu"))
    peak = statistics.median(run.peak for run in runs) / 2**20
    each_run = ", ".join(f"{run.seconds:.3f}" for run in runs)
    return [f"  {name:>6}: median {seconds:.3f} s ({each_run}), CPU {cpu:.3f} s, peak {peak:.0f} MiB"]


def measure(case: Case, table: Path, runs: int) -> Outcome:
    """Measure each side ``runs`` times; they take turns in going first.

    Raises:
        subprocess.CalledProcessError: A side failed.
    """
    ours: list[Run] = []
    theirs: list[Run] = []
    for number in range(runs):
        sides = [(case.ours, ours)] + ([(case.theirs, theirs)] if case.theirs else [])
        for side, found in sides if number % 2 else sides[::-1]:
            case.reset(table)
            found.append(_in_fresh_process(side, table))
    case.reset(table)
    return Outcome(case=case, ours=tuple(ours), theirs=tuple(theirs))


def _in_fresh_process(side: str, table: Path) -> Run:
    command = [sys.executable, "-m", "benchmarks.log_core.fresh", side, str(table)]
    paths = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, cwd=_ROOT)
    return Run(**json.loads(done.stdout.splitlines()[-1]))
