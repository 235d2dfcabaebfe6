"""Retries with exponential backoff and jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often a request is tried, and how long to wait between tries.

    Attributes:
        tries: The most times the request is sent.
        first: Upper bound of the first pause, in seconds; it doubles with each further pause.
        most: Upper bound of every pause, in seconds.
        sleep: Waits for the given number of seconds.
        jitter: Returns a new random number from 0 to 1 at each call.
    """

    tries: int = 3
    first: float = 0.1
    most: float = 5.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def length(self, number: int) -> float:
        """Seconds to wait after try ``number``, counted from 0: a random time between half of the upper bound and all of it."""
        longest = min(self.most, self.first * 2 ** min(number, 30))
        return longest * (0.5 + self.jitter() / 2)

    def pause(self, number: int) -> None:
        """Wait after try ``number``, counted from 0."""
        self.sleep(self.length(number))

    def numbers(self) -> Iterator[int]:
        """Yield the number of each try, from 0; wait before every try but the first."""
        for number in range(self.tries):
            if number:
                self.pause(number - 1)
            yield number
