"""Drivers of an earlier try that go on beside this worker: they end before the next try does their work again.

Most end by themselves (``airflow_delta.jobs.orphan``); one that was stopped does not, nor one that does not see its worker.
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
"""Seconds between SIGTERM, at which a JVM says goodbye to its cluster, and SIGKILL."""

DRIVER_ARGUMENT = "--token"
"""Before the token on the command line of a driver over Spark Connect, which reads its spec from a pipe."""

_logger = logging.getLogger(__name__)


def end_orphans(token: str) -> list[int]:
    """End the drivers and ``spark-submit`` processes of a task's earlier tries on this machine; their ids.

    Ending one at any moment is safe: it has committed, or it has not. Finds only processes of this user whose command line has
    a spec with the token, the name of a file with it, or the token alone; none where there is no ``/proc``, and none elsewhere.

    Args:
        token: The task's idempotency token.
    """
    orphans = dict(_open_drivers(token))
    if orphans:
        _logger.warning("Drivers of an earlier try of this task are ended, they are still there: %s", sorted(orphans.values()))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for handle in orphans:
            with suppress(OSError):  # it has ended
                signal.pidfd_send_signal(handle, number)
        _await_end(orphans)
    for handle in orphans:
        os.close(handle)
    return sorted(orphans.values())


def _open_drivers(token: str) -> Iterator[tuple[int, int]]:
    """Handles of the processes and their ids. A handle is opened before the look, so that it cannot be another process's."""
    if not hasattr(os, "pidfd_open"):  # a Mac, or a Python that was built for an old Linux
        return
    for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
        with suppress(OSError):  # it has ended, or is hidden from us
            handle = os.pidfd_open(pid)
            if pid != os.getpid() and _is_driver(pid, token):
                yield handle, pid
            else:
                os.close(handle)


def _is_driver(pid: int, token: str) -> bool:
    """Whether a process of this user has this token as an argument, or ``--spec`` with it: the text, or ``@`` and its file."""
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
