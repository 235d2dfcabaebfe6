"""A call that ends in time, whatever its peer does: the timeout of a socket begins anew with every byte that comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """The answer to the call. One that is given up goes on in a thread of its own, and nobody hears of its end.

    Raises:
        TimeoutError: There is none in time.
        As the call.
    """
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it was called
            answer.set_exception(error)

    threading.Thread(target=work, name="request to a catalog", daemon=True).start()
    return answer.result(seconds)
