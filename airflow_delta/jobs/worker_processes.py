"""The processes of a task, by which a driver beside the worker knows whether the worker is alive.

A process is identified by its id and its start time. So it need not be an ancestor of the driver, as with wrappers around
``spark-submit``, and an id that the kernel has reused is noticed. Both are only valid on one machine, between two boots and in
one namespace: a driver elsewhere, such as in another container, cannot watch the worker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "AIRFLOW_DELTA_WORKER"
"""Environment variable with a driver's ``WorkerProcesses`` as JSON; if it is empty, the driver watches no worker."""

_STATE, _START_TIME = 0, 19
"""Positions of fields in ``/proc/<pid>/stat``, counted after the process name."""

_ENDED = -1
"""Stands for the start time of a process that does not exist, or is a zombie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcesses:
    """The processes that must all be alive for the task to succeed.

    Attributes:
        machine: Identifies the boot and the namespaces in which the ids are valid.
        start_times: Start times by process id, in the kernel's clock ticks since boot.
    """

    machine: str
    start_times: Mapping[int, int]

    @classmethod
    def of(cls, *pids: int) -> WorkerProcesses | None:
        """The processes with these ids; None without ``/proc``."""
        machine, found = _machine(), {pid: _start_time(pid) for pid in pids}
        start_times = {pid: start_time for pid, start_time in found.items() if start_time is not None and start_time != _ENDED}
        return cls(machine=machine, start_times=start_times) if machine and start_times else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> WorkerProcesses | None:
        """The processes that this driver's environment names; None if it names no processes, or they are on another machine."""
        text = environment.get(VARIABLE)
        if not text:
            return None
        document = json.loads(text)
        if document["machine"] != _machine():
            return None
        start_times = {int(pid): start_time for pid, start_time in document["start_times"].items()}
        return cls(machine=document["machine"], start_times=start_times)

    def to_environment(self) -> dict[str, str]:
        """The environment variable for a driver."""
        return {VARIABLE: json.dumps({"machine": self.machine, "start_times": self.start_times})}

    def gone(self) -> int | None:
        """The id of a process that has ended; None while all are alive."""
        return next((pid for pid, start_time in self.start_times.items() if _start_time(pid) not in {start_time, None}), None)


def _start_time(pid: int) -> int | None:
    """The start time of a process; ``_ENDED`` if it has ended, None if this user may not see it."""
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
        pass  # another user's process
    return True


def _machine() -> str | None:
    """Identifies this boot of this machine, and this process's namespaces of process ids and of times; None if unknown."""
    names = []
    with suppress(OSError):
        names.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        names.append(str(Path("/proc/self/ns/pid").readlink()))
        names.append(str(Path("/proc/self/ns/time").readlink()))  # missing before Linux 5.6
    return " ".join(names) if len(names) > 1 else None
