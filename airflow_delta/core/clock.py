"""The current time, passed in wherever it is needed, so that tests can set it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns the current time in milliseconds since the epoch."""


def system_clock() -> int:
    """The current time of this machine's clock, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
