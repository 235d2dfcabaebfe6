"""Finds the tables below a folder, level by level, without opening any table."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from airflow_delta.core.log.file_names import LOG_DIRECTORY
from airflow_delta.core.operations.new_files import glob_regex
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.storage_failures import storage_failure

_THREADS = 16
_DIRECTORY = pafs.FileType.Directory


def find_tables(root: LogStore, *, pattern: str | None = None, max_depth: int = 3) -> list[str]:
    """The tables at and below a folder, as sorted paths below it; ``""`` is the folder itself.

    A folder that has a ``_delta_log`` is a table, and is not searched further. Folders whose names begin with ``_`` or a dot
    are skipped.

    Args:
        root: The folder.
        pattern: Glob of the tables' paths, as of ``glob_regex``; None is all.
        max_depth: How many levels of folders below the root to search.

    Raises:
        InvalidStatementError: The pattern is not a valid glob.
        StorageAccessError: The storage denies access.
        OSError: The storage does not answer.
    """
    try:
        tables = _tables(root, max_depth)
    except (OSError, pa.ArrowException) as error:
        if (failure := storage_failure(error, root.table_uri)) is None:
            raise
        raise failure from error
    if pattern is not None and tables:
        tables = pa.array(tables).filter(pc.match_substring_regex(pa.array(tables), glob_regex(pattern))).to_pylist()
    return sorted(tables)


def _tables(root: LogStore, max_depth: int) -> list[str]:
    filesystem, place = root.data_filesystem()
    place = place.rstrip("/")
    tables: list[str] = []
    level = [""]
    with ThreadPoolExecutor(_THREADS) as workers:
        for depth in range(max_depth + 1):
            found = _are_tables(filesystem, place, level, workers)
            tables += [path for path, is_table in zip(level, found, strict=True) if is_table]
            others = [path for path, is_table in zip(level, found, strict=True) if not is_table]
            if depth < max_depth:
                level = [
                    path for below in workers.map(lambda path: _folders(filesystem, place, path), others) for path in below
                ]
    return tables


def _are_tables(filesystem: pafs.FileSystem, place: str, paths: Sequence[str], workers: ThreadPoolExecutor) -> list[bool]:
    logs = ["/".join(filter(None, (place, path, LOG_DIRECTORY))) for path in paths]
    return list(workers.map(lambda log: filesystem.get_file_info(log).type == _DIRECTORY, logs))


def _folders(filesystem: pafs.FileSystem, place: str, path: str) -> list[str]:
    """The folders directly below a folder, as paths below the root."""
    selector = pafs.FileSelector("/".join(filter(None, (place, path))), allow_not_found=True)
    try:
        below = filesystem.get_file_info(selector)
    except NotADirectoryError:  # the root is a file, below which nothing exists, as in an object store
        return []
    names = (info.base_name for info in below if info.type == _DIRECTORY)
    return ["/".join(filter(None, (path, name))) for name in names if name[:1] not in ("_", ".")]
