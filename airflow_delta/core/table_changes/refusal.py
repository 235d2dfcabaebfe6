"""The reason why a change is refused, raised where table and statement are not known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_delta.core.errors import InvalidTableChangeError

CORRECT_THE_ARGUMENTS = "correct the arguments"


class Refusal(Exception):  # noqa: N818 (users never see it: it becomes an error with the table's name)
    """Raised by a pure function that refuses a change.

    Attributes:
        detail: What is not possible.
        cure: What would make it possible.
    """

    def __init__(self, detail: str, cure: str = CORRECT_THE_ARGUMENTS) -> None:
        super().__init__(detail)
        self.detail = detail
        self.cure = cure


@contextmanager
def refusals(table: str, change: str) -> Iterator[None]:
    """Turn a refusal into an ``InvalidTableChangeError`` that names the table and the operation."""
    try:
        yield
    except Refusal as refusal:
        raise InvalidTableChangeError(table=table, change=change, detail=refusal.detail, cure=refusal.cure) from refusal
