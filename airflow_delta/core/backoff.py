"""Pauses between attempts: growing, with jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often a request is sent, and how long to wait in between.

    Attributes:
        tries: How often it is sent at most.
        first: Longest first pause, seconds; each next one is up to twice as long.
        most: Longest pause at all, seconds.
        sleep: Waits for so many seconds.
        jitter: A number from 0 to 1, another one at each call.
    """

    tries: int = 3
    first: float = 0.1
    most: float = 5.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def length(self, number: int) -> float:
        """Seconds to wait after the try of this number, the first of which is 0: half of the longest pause to all of it."""
        longest = min(self.most, self.first * 2 ** min(number, 30))
        return longest * (0.5 + self.jitter() / 2)

    def pause(self, number: int) -> None:
        """Wait after the try of this number."""
        self.sleep(self.length(number))

    def numbers(self) -> Iterator[int]:
        """The number of each try; waits before all but the first."""
        for number in range(self.tries):
            if number:
                self.pause(number - 1)
            yield number
