"""What reading a corrupt file raises, as the one typed error that names the file."""

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
    NotImplementedError,  # Arrow, of a cast or an encoding that it does not have
    MemoryError,
    RecursionError,
)
"""What Python's JSON and all of Arrow raise for content that is not what it claims to be; a length that lies wants memory."""


_LONGEST = 500


def described(error: BaseException) -> str:
    """What was raised, cut to a length that a message can have: Arrow repeats whole values."""
    return f"{type(error).__name__}: {error}"[:_LONGEST]


@contextmanager
def corrupt_log_errors(table: str, path: str) -> Iterator[None]:
    """Turns what the block raises into ``CorruptLogError`` for the file ``path``; our own errors pass.

    A storage that refuses or does not answer is no statement about the file, and is raised as ``storage_failure`` has it.
    """
    try:
        yield
    except DeltaError:
        raise
    except UNREADABLE as error:
        if failure := storage_failure(error, table):
            raise failure from error
        raise CorruptLogError(table=table, file=path, detail=described(error)) from error
