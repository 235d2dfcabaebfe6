"""From the errors of any filesystem to ours: the one place that separates storage failures from bad file content."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import pyarrow as pa

from airflow_delta.core.backoff import Backoff
from airflow_delta.core.errors import (
    CorruptDataFileError,
    CredentialsExpiredError,
    DeltaError,
    MissingDataFileError,
    StorageAccessError,
    StorageFullError,
    StorageUnavailableError,
)
from airflow_delta.core.storage.storage_answers import Meaning, described, storage_meaning

_CONTENT = (pa.ArrowException, OSError, TypeError, ValueError)
"""What reading raises for wrong content (the last: also for names that are no text)."""

DATA_READS = Backoff(tries=4, first=0.5, most=8.0)
"""For data files: each request has been tried by Arrow itself before, for about a second."""

_BY_MEANING: dict[Meaning, type[StorageAccessError | StorageUnavailableError]] = {
    Meaning.REFUSED: StorageAccessError,
    Meaning.EXPIRED: CredentialsExpiredError,
    Meaning.FULL: StorageFullError,
    Meaning.UNKNOWN: StorageUnavailableError,
    Meaning.BUSY: StorageUnavailableError,
}

Answer = TypeVar("Answer")


def storage_failure(
    error: BaseException, uri: str, secrets: Collection[str] = ()
) -> StorageAccessError | StorageUnavailableError | None:
    """The typed error of a storage that refuses, is full or does not answer; None where it is not the storage's fault.

    Args:
        error: What a filesystem, or a reader on it, has raised.
        uri: The table, or whatever place the caller knows.
        secrets: What its text must not show.
    """
    if isinstance(error, (StorageAccessError, StorageUnavailableError)):
        return error
    meaning = None if isinstance(error, DeltaError) else storage_meaning(error)
    kind = None if meaning is None else _BY_MEANING.get(meaning)
    return None if kind is None else kind(uri=uri, detail=described(error, secrets))


def data_failure(error: Exception, *, table: str, file: str, about: str = "") -> DeltaError | None:
    """The typed error for a data file that could not be read: the storage's fault, or the file is missing or corrupt.

    None for an error that reading does not explain, or that is typed already.
    """
    if isinstance(error, DeltaError) and not isinstance(error, StorageUnavailableError):
        return None
    if storage_meaning(error) is Meaning.ABSENT:
        return MissingDataFileError(table=table, file=file, detail=f"{about}the file does not exist")
    failure = storage_failure(error, table)
    if failure is not None:
        return type(failure)(uri=table, detail=f"{file}: {about}{failure.detail}")
    return CorruptDataFileError(table=table, file=file, detail=f"{about}{error}") if isinstance(error, _CONTENT) else None


def is_to_be_repeated(failure: DeltaError | None, number: int, backoff: Backoff) -> bool:
    """Whether a read that failed like this at the try of this number, counted from 0, is tried once more."""
    return isinstance(failure, StorageUnavailableError) and number < backoff.tries - 1


def read_data(read: Callable[[], Answer], *, table: str, file: str, about: str = "", backoff: Backoff = DATA_READS) -> Answer:
    """The result of ``read``, which is repeated while the storage does not answer.

    Args:
        read: One or more requests for a file.
        table: For errors.
        file: Likewise; a path of the log.
        about: What of the file is read, where it is not its rows.
        backoff: How often ``read`` is tried.

    Raises:
        CorruptDataFileError: The file is missing, or its content is wrong.
        StorageAccessError: The storage refuses.
        StorageUnavailableError: It did not answer any of the tries.
    """
    for number in backoff.numbers():
        try:
            return read()
        except Exception as error:
            failure = data_failure(error, table=table, file=file, about=about)
            if failure is None:
                raise
            if not is_to_be_repeated(failure, number, backoff):
                raise failure from error
    raise AssertionError("a backoff has at least one try")
