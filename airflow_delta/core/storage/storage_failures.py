"""Converts the errors of any filesystem to typed ones; the only place that tells storage failures from bad file content."""

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
"""What reading raises for invalid content; ValueError also for file names that are not valid text."""

DATA_READS = Backoff(tries=4, first=0.5, most=8.0)
"""For data files; Arrow itself has already retried each request for about a second."""

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
    """The typed error of a storage that denies access, is full or does not answer; None if the storage is not the cause.

    Args:
        error: The exception that a filesystem, or a reader on it, has raised.
        uri: The table, or whatever place the caller knows.
        secrets: Texts that the message must not show.
    """
    if isinstance(error, (StorageAccessError, StorageUnavailableError)):
        return error
    meaning = None if isinstance(error, DeltaError) else storage_meaning(error)
    kind = None if meaning is None else _BY_MEANING.get(meaning)
    return None if kind is None else kind(uri=uri, detail=described(error, secrets))


def data_failure(error: Exception, *, table: str, file: str, about: str = "") -> DeltaError | None:
    """The typed error for a data file that could not be read: a storage failure, or the file is missing or corrupt.

    None if the error does not come from reading, or is typed already.
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
    """Whether a read that failed with this error at try ``number``, counted from 0, is repeated."""
    return isinstance(failure, StorageUnavailableError) and number < backoff.tries - 1


def read_data(read: Callable[[], Answer], *, table: str, file: str, about: str = "", backoff: Backoff = DATA_READS) -> Answer:
    """The result of ``read``, which is repeated while the storage does not answer.

    Args:
        read: One or more requests for a file.
        table: URI of the table, for errors.
        file: Path of the file in the log, for errors.
        about: Which part of the file is read, if not its rows.
        backoff: How often ``read`` is tried.

    Raises:
        CorruptDataFileError: The file is missing, or its content is invalid.
        StorageAccessError: The storage denies access.
        StorageUnavailableError: The storage did not answer any of the tries.
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
