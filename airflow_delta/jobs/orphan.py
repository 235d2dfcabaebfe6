"""A driver that has lost its JVM must not go on."""

from __future__ import annotations

import os
import threading
import time

_INTERVAL = 0.5
"""Seconds between two looks."""


def exit_with_jvm() -> None:
    """End this process soon after the JVM that started it is gone.

    A commit needs no JVM, so a driver whose task was killed (``on_kill`` kills the JVM) could otherwise still make one.
    Does nothing where the JVM was not the one to start this process, as in ``python delta_merge.py``.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        threading.Thread(target=_watch, args=(os.getppid(),), name="exit-with-jvm", daemon=True).start()


def _watch(jvm: int) -> None:
    while os.getppid() == jvm:
        time.sleep(_INTERVAL)
    os._exit(os.EX_SOFTWARE)
