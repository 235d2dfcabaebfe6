"""Many files deleted with few requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from airflow_delta.core.errors import DeltaError, StorageAccessError
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_uri import scheme_of

LOCAL_SCHEMES = {"file", "memory"}

_DELETED_AT_ONCE = 1000
_THREADS = 8  # requests on their way to an object store; a local disk gains nothing by more than one


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelete:
    """Files that one request was to delete, and did not.

    Attributes:
        example: One of them.
        number: How many they are.
        detail: Why.
    """

    example: str
    number: int
    detail: str


def delete_in_bulk(store: LogStore, paths: pa.Array) -> list[FailedDelete]:
    """Delete the files, many at once; what is refused, or not answered, does not keep the others."""
    pieces = [paths.slice(start, _DELETED_AT_ONCE) for start in range(0, len(paths), _DELETED_AT_ONCE)]

    def delete(piece: pa.Array) -> FailedDelete | None:
        try:
            store.delete(piece.to_pylist())
        except (OSError, StorageAccessError) as error:  # such as of one file that is held
            detail = error.claim() if isinstance(error, DeltaError) else str(error)
            return FailedDelete(example=piece[0].as_py(), number=len(piece), detail=detail)
        return None

    threads = 1 if scheme_of(store.table_uri) in LOCAL_SCHEMES else _THREADS
    with ThreadPoolExecutor(threads) as pool:
        return [failure for failure in pool.map(delete, pieces) if failure]
