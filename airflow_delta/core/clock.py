"""Time, passed in wherever it is needed, so that tests decide it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Now, in milliseconds since the epoch."""


def system_clock() -> int:
    """Now by the machine's clock, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
