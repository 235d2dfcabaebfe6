"""From the log's name of a file to the file.

Protocol: PROTOCOL.md, "Add File and Remove File": a path is a URI, percent-encoded once, relative to the root unless it has a
scheme or begins with a slash.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from urllib.parse import unquote

import pyarrow.fs

from airflow_delta.core.storage.table_uri import is_relative


class FileLocator:
    """Finds the files of one table; the table's own filesystem is made once."""

    def __init__(self, data_filesystem: Callable[[str | None], tuple[pyarrow.fs.FileSystem, str]]) -> None:
        """Take ``LogStore.data_filesystem``, or ``TableFilesystems``, which other processes can take too."""
        self._data_filesystem = data_filesystem

    @cached_property
    def root(self) -> tuple[pyarrow.fs.FileSystem, str]:
        """The table's own filesystem, and its root there."""
        return self._data_filesystem(None)

    def __call__(self, path: str) -> tuple[pyarrow.fs.FileSystem, str]:
        """The filesystem, and the path there, of a file that the log names by ``path``."""
        if not is_relative(path):
            return self._data_filesystem(unquote(path))
        filesystem, root = self.root
        return filesystem, f"{root}/{unquote(path)}"
