"""Calls with a total time limit, because a socket's timeout starts again with every byte received."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """Run a call in a thread and return its result; a call that takes too long is left running, and its result is ignored.

    Raises:
        TimeoutError: The call took longer than ``seconds``.
        Any exception of the call.
    """
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it was called
            answer.set_exception(error)

    threading.Thread(target=work, name="request to a catalog", daemon=True).start()
    return answer.result(seconds)
