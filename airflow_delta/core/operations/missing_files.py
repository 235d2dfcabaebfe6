"""Finds files that the log names but that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.operations.absolute_paths import are_absolute
from airflow_delta.core.operations.unneeded_files import lies_below_the_root, unencoded
from airflow_delta.core.operations.vacuum_candidates import list_files_below_root
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.storage_failures import read_data
from airflow_delta.core.storage.table_uri import scheme_of

_CHECKED_SINGLY = 1000  # with this many files or more, one listing is faster
_THREADS = 8


def missing_files(store: LogStore, paths: pa.ChunkedArray) -> pa.Array:
    """Those of the paths (as in the log, distinct) whose file does not exist.

    A relative path that leads outside of the table (``../x``) counts as missing and is not checked. An absolute path is checked
    with the options of the table's store.

    Raises:
        PathOutsideTableError: A path leads where the table may not read.
        StorageAccessError: The storage of a file elsewhere denies access.
        OSError: The storage does not answer.
    """
    absolute = are_absolute(paths)
    return pa.concat_arrays(
        [
            _missing_below_the_root(store, paths.filter(pc.invert(absolute))),
            _missing_elsewhere(store, paths.filter(absolute).to_pylist()),
        ]
    )


def _missing_below_the_root(store: LogStore, paths: pa.ChunkedArray) -> pa.Array:
    names = unencoded(paths)
    below = lies_below_the_root(names)
    requested = names.filter(below)
    if len(requested) > _CHECKED_SINGLY:
        there = pc.is_in(names, list_files_below_root(store)["path"])
        requested = names.filter(pc.and_(below, pc.invert(there)))
    else:
        there = pa.repeat(pa.scalar(False), len(names))
    if (
        len(requested) <= _CHECKED_SINGLY or scheme_of(store.table_uri) == "file"
    ):  # a listing does not follow links to directories
        with ThreadPoolExecutor(_THREADS) as pool:
            candidates = requested.to_pylist()
            answers = pool.map(store.exists, candidates)
            found = [name for name, is_there in zip(candidates, answers, strict=True) if is_there]
        there = pc.or_(there, pc.is_in(names, pa.array(found, pa.string())))
    return paths.filter(pc.invert(pc.and_(there, below))).combine_chunks()


def _missing_elsewhere(store: LogStore, paths: Iterable[str]) -> pa.Array:
    locate = FileLocator.from_store(store)

    def exists(path: str) -> bool:
        return read_data(lambda: _exists_elsewhere(locate, path), table=store.table_uri, file=path)

    with ThreadPoolExecutor(_THREADS) as pool:
        return pa.array(_without_file(paths, pool.map(exists, paths)), pa.string())


def _without_file(paths: Iterable[str], answers: Iterable[bool]) -> Iterator[str]:
    return (path for path, is_there in zip(paths, answers, strict=True) if not is_there)


def _exists_elsewhere(locate: FileLocator, path: str) -> bool:
    try:
        filesystem, place = locate(path)
    except UnsupportedStorageError:  # no reader could read it either
        return False
    return bool(filesystem.get_file_info(place).type == pyarrow.fs.FileType.File)
