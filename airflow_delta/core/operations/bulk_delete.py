"""Many files deleted with few requests."""

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
_ENOUGH = 3  # refusals, before anything was deleted, to take the right to be missing
_THREADS = 8  # requests on their way to an object store; a local disk gains nothing by more than one


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelete:
    """Files that one request was to delete, and did not.

    Attributes:
        example: One of them.
        number: How many they are.
        detail: Why.
        is_refused: Whether the storage denied it, as it will the next time.
    """

    example: str
    number: int
    detail: str
    is_refused: bool


def delete_in_bulk(store: LogStore, paths: pa.Array) -> list[FailedDelete]:
    """Delete the files, many at once; what is refused, or not answered, does not keep the others.

    Where nothing but refusals comes back, the rest is not sent: whoever may not delete has as many of them as files.
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
        except StorageAccessError as error:  # such as of one file that is held
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
    """The error where the storage refused to delete any of the paths, which another try does not change."""
    if not all(failure.is_refused for failure in failed) or sum(failure.number for failure in failed) < len(paths):
        return None
    return StorageAccessError(uri=table, detail=failed[0].detail)
