"""Drivers of an earlier try that still run beside this worker: they are ended before the next try repeats their work.

Most drivers end by themselves (``airflow_delta.jobs.orphan``), but not one that is stopped or cannot see its worker.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

GRACE = 5.0
"""Seconds between SIGTERM, on which a JVM signs off from its cluster, and SIGKILL."""

DRIVER_ARGUMENT = "--token"
"""Option before the token on the command line of a Spark Connect driver, whose job spec comes through a pipe."""

_logger = logging.getLogger(__name__)


def end_orphans(token: str) -> list[int]:
    """End the drivers and ``spark-submit`` processes of a task's earlier tries on this machine; return their process ids.

    Ending a driver is safe at any moment: it has either committed or not. Only processes of this user are found whose command
    line has a job spec with the token, the name of a spec file with the token, or the token itself; without ``/proc``, no
    process is found.

    Args:
        token: The task's idempotency token.
    """
    orphans = dict(_open_drivers(token))
    if orphans:
        _logger.warning("Drivers of an earlier try of this task are ended, they are still there: %s", sorted(orphans.values()))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for handle in orphans:
            with suppress(OSError):  # the process has ended
                signal.pidfd_send_signal(handle, number)
        _await_end(orphans)
    for handle in orphans:
        os.close(handle)
    return sorted(orphans.values())


def _open_drivers(token: str) -> Iterator[tuple[int, int]]:
    """Handles and ids of the drivers. Each handle is opened before the process is examined: its id cannot be reused then."""
    if not hasattr(os, "pidfd_open"):  # a Mac, or a Python that was built for an old Linux
        return
    for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
        with suppress(OSError):  # the process has ended, or is hidden from this user
            handle = os.pidfd_open(pid)
            if pid != os.getpid() and _is_driver(pid, token):
                yield handle, pid
            else:
                os.close(handle)


def _is_driver(pid: int, token: str) -> bool:
    """Whether a process of this user has the token as an argument, or in the text or file name (``@``) of ``--spec``."""
    process = Path(f"/proc/{pid}")
    try:
        if process.stat().st_uid != os.getuid():
            return False
        arguments = (process / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    except OSError:
        return False
    text, file = f'"token":"{token}"', f"-{token}.json"
    specs = [value for name, value in pairwise(arguments) if name == "--spec"]
    return (DRIVER_ARGUMENT, token) in pairwise(arguments) or any(
        text in value or (value.startswith("@") and value.endswith(file)) for value in specs
    )


def _await_end(handles: Iterable[int]) -> None:
    deadline = time.monotonic() + GRACE
    for handle in handles:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        ended.poll(max(0.0, 1_000 * (deadline - time.monotonic())))
