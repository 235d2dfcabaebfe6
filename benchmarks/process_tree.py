"""CPU and memory used by this process and all its descendants (the JVM, Spark's Python workers); from ``/proc``, Linux only."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class Usage:
    """A sample: CPU seconds so far (ended children included), resident bytes (shared pages count once per process)."""

    cpu: float
    resident: int


class Meter:
    """Measures a ``with`` block: ``seconds``, ``cpu`` (seconds) and ``peak`` (bytes, sampled) are set when it ends."""

    def __enter__(self) -> Self:
        self._before = tree_usage()
        self.peak = self._before.resident
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        self._started = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.seconds = time.monotonic() - self._started
        self._done.set()
        self._sampler.join()
        self.cpu = tree_usage().cpu - self._before.cpu

    def _sample(self) -> None:
        while not self._done.wait(_INTERVAL):
            self.peak = max(self.peak, tree_usage().resident)


def tree_usage() -> Usage:
    """What this process and its descendants use now."""
    stats = [found for folder in Path("/proc").iterdir() if folder.name.isdigit() and (found := _stat(folder)) is not None]
    children: dict[int, list[int]] = {}
    by_id = {}
    for process, parent, cpu, resident in stats:
        children.setdefault(parent, []).append(process)
        by_id[process] = (cpu, resident)
    pending, cpu_total, resident_total = [os.getpid()], 0.0, 0
    while pending:
        process = pending.pop()
        pending += children.get(process, [])
        cpu, resident = by_id.get(process, (0.0, 0))
        cpu_total, resident_total = cpu_total + cpu, resident_total + resident
    return Usage(cpu_total, resident_total)


def _stat(process: Path) -> tuple[int, int, float, int] | None:
    """Id, parent, CPU seconds, resident bytes; None for a process that is gone."""
    try:
        text = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    user, system, children_user, children_system = (int(fields[position]) for position in range(11, 15))
    cpu = (user + system + children_user + children_system) / _TICKS
    return int(process.name), int(fields[1]), cpu, int(fields[21]) * _PAGE
