"""The disk cache that a process's environment configures; none unless a folder is named."""

from __future__ import annotations

import os

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.disk_cache import DiskCache

FOLDER_VARIABLE = "AIRFLOW_DELTA_CACHE_DIR"
BYTES_VARIABLE = "AIRFLOW_DELTA_CACHE_BYTES"
FILES_VARIABLE = "AIRFLOW_DELTA_CACHE_FILES"
CACHE_VARIABLES = (FOLDER_VARIABLE, BYTES_VARIABLE, FILES_VARIABLE)

_MOST_BYTES = 10_000_000_000
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def ambient_cache() -> DiskCache | None:
    """The cache that the environment configures; None without one.

    Raises:
        InvalidStatementError: A variable has an invalid value.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    most, files = os.environ.get(BYTES_VARIABLE) or str(_MOST_BYTES), os.environ.get(FILES_VARIABLE, "").lower()
    if not (most.isascii() and most.isdigit()):
        raise InvalidStatementError(statement=BYTES_VARIABLE, detail=f"it must be a number of bytes, found {most!r}")
    if files not in _WORDS:
        raise InvalidStatementError(statement=FILES_VARIABLE, detail=f"it must be true or false, found {files!r}")
    return DiskCache(folder=folder, most_bytes=int(most), keeps_files=_WORDS[files])
