"""Deletion of many files with few requests."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from airflow_delta.core.errors import DeltaError, StorageAccessError
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_uri import scheme_of

LOCAL_SCHEMES = {"file", "memory"}

_DELETED_AT_ONCE = 1000
_ENOUGH = 3  # denied requests, before any succeeded, after which permission is taken to be missing
_THREADS = 8  # concurrent requests to an object store; a local disk gains nothing from more than one


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelete:
    """Files that one request should have deleted, but did not.

    Attributes:
        example: One of the files.
        number: Number of files.
        detail: Why they were not deleted.
        is_refused: Whether the storage denied access, which a retry does not change.
    """

    example: str
    number: int
    detail: str
    is_refused: bool


def delete_in_bulk(store: LogStore, paths: pa.Array) -> list[FailedDelete]:
    """Delete the files, many per request; requests that are denied or not answered do not stop the others.

    If every request so far was denied, the rest is not sent: without permission, each of them would fail.
    """
    pieces = [paths.slice(start, _DELETED_AT_ONCE) for start in range(0, len(paths), _DELETED_AT_ONCE)]
    refused: list[str] = []
    done: list[int] = []

    def delete(piece: pa.Array) -> FailedDelete | None:
        example, number = piece[0].as_py(), len(piece)
        if len(refused) >= _ENOUGH and not done:
            return FailedDelete(example=example, number=number, detail=refused[0], is_refused=True)
        try:
            store.delete(piece.to_pylist())
        except StorageAccessError as error:  # for example, of a file with a retention lock
            if not error.retryable:
                refused.append(error.detail)
            return FailedDelete(example=example, number=number, detail=error.detail, is_refused=not error.retryable)
        except OSError as error:
            detail = error.claim() if isinstance(error, DeltaError) else str(error)
            return FailedDelete(example=example, number=number, detail=detail, is_refused=False)
        done.append(number)
        return None

    threads = 1 if scheme_of(store.table_uri) in LOCAL_SCHEMES else _THREADS
    with ThreadPoolExecutor(threads) as pool:
        return [failure for failure in pool.map(delete, pieces) if failure]


def refusal_of_all(table: str, paths: pa.Array | pa.ChunkedArray, failed: Sequence[FailedDelete]) -> StorageAccessError | None:
    """The error if the storage denied deleting every path, which a retry does not change; else None."""
    if not all(failure.is_refused for failure in failed) or sum(failure.number for failure in failed) < len(paths):
        return None
    return StorageAccessError(uri=table, detail=failed[0].detail)
