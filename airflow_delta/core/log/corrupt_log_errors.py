"""Converts the exceptions of reading a corrupt file to one typed error that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_delta.core.errors import CorruptLogError, DeltaError
from airflow_delta.core.storage.storage_failures import storage_failure

UNREADABLE = (
    OSError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    NotImplementedError,  # Arrow, for an unsupported cast or encoding
    MemoryError,
    RecursionError,
)
"""What Python's JSON and Arrow raise for invalid content; MemoryError, because a wrong length requests too much memory."""


_LONGEST = 500


def described(error: BaseException) -> str:
    """The exception as text, shortened for a message: Arrow repeats whole values."""
    return f"{type(error).__name__}: {error}"[:_LONGEST]


@contextmanager
def corrupt_log_errors(table: str, path: str) -> Iterator[None]:
    """Turns what the block raises into ``CorruptLogError`` for the file ``path``; this package's own errors pass through.

    If the storage denies access or does not answer, the file may be fine: that is raised as ``storage_failure`` maps it.
    """
    try:
        yield
    except DeltaError:
        raise
    except UNREADABLE as error:
        if failure := storage_failure(error, table):
            raise failure from error
        raise CorruptLogError(table=table, file=path, detail=described(error)) from error
