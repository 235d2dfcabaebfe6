"""The processes of a task, by which a driver beside it knows whether its worker is alive.

A process is known by its id and its start time: it need not be an ancestor of the driver, so programs around ``spark-submit``
do no harm, and neither does an id that the kernel gives away again. Both mean something on one machine, between two of its
boots, and in one namespace: a driver elsewhere, such as in a container of its own, knows nothing of the worker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "AIRFLOW_DELTA_WORKER"
"""Holds a ``WorkerProcesses`` as text in the environment of a driver; an empty one lets one of client mode go on without it."""

_STATE, _START_TIME = 0, 19
"""Places in ``/proc/<pid>/stat``, counted from behind the name."""

_ENDED = -1
"""In the place of the start time of a process that is not there, or only waits to be reaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcesses:
    """The processes of which each must live, or the task cannot end well.

    Attributes:
        machine: Where their ids mean something.
        start_times: In the kernel's clock ticks since the machine's boot, by id.
    """

    machine: str
    start_times: Mapping[int, int]

    @classmethod
    def of(cls, *pids: int) -> WorkerProcesses | None:
        """Those of these ids; None where there is no ``/proc`` to ask."""
        machine, found = _machine(), {pid: _start_time(pid) for pid in pids}
        start_times = {pid: start_time for pid, start_time in found.items() if start_time is not None and start_time != _ENDED}
        return cls(machine=machine, start_times=start_times) if machine and start_times else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> WorkerProcesses | None:
        """Those that the environment of this driver names; None when it names none, or when they are elsewhere."""
        text = environment.get(VARIABLE)
        if not text:
            return None
        document = json.loads(text)
        if document["machine"] != _machine():
            return None
        start_times = {int(pid): start_time for pid, start_time in document["start_times"].items()}
        return cls(machine=document["machine"], start_times=start_times)

    def to_environment(self) -> dict[str, str]:
        """The variable that a driver needs."""
        return {VARIABLE: json.dumps({"machine": self.machine, "start_times": self.start_times})}

    def gone(self) -> int | None:
        """The id of one that has ended; None while all of them live."""
        return next((pid for pid, start_time in self.start_times.items() if _start_time(pid) not in {start_time, None}), None)


def _start_time(pid: int) -> int | None:
    """The start time of a process; ``_ENDED`` when it has ended, None when we may not see it."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None if _exists(pid) else _ENDED
    return _ENDED if values[_STATE] in {"Z", "X"} else int(values[_START_TIME])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    return True


def _machine() -> str | None:
    """This boot of this machine and our namespaces of process ids and times."""
    names = []
    with suppress(OSError):
        names.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        names.append(str(Path("/proc/self/ns/pid").readlink()))
        names.append(str(Path("/proc/self/ns/time").readlink()))  # not of a Linux before 5.6
    return " ".join(names) if len(names) > 1 else None
