"""The directory in which a statement's new files come to lie, and its end when nothing is committed."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.fs as pafs

from airflow_delta.core.errors import CommitStateUnknownError, DeltaError
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.spark.data_paths import hadoop_uri, log_path

_log = logging.getLogger(__name__)


class StagingArea:
    """A directory inside the table for the files of one statement: they are written where they stay.

    Use it as a context manager. Nothing is created before the first file is written into it. Leaving the block deletes the
    directory (and the table's own, when this statement made it), unless the files were entrusted to a commit. Its name starts
    with neither ``_`` nor a dot, so that every engine's vacuum reaches what a killed job leaves behind.

    Attributes:
        table_uri: The table's root.
        name: The directory, relative to the root.
        uri: The directory as Spark and ``data_filesystem`` take it.
    """

    def __init__(self, table_uri: str) -> None:
        self.table_uri = table_uri.rstrip("/")
        self.name = f"write-{uuid.uuid4().hex}"
        self.uri = f"{hadoop_uri(self.table_uri)}/{self.name}"
        self._filesystem, self._root = data_filesystem(self.table_uri)
        self._missing = _missing_directories(self._filesystem, self._root)
        self._entrusted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._entrusted and (error is None or not _says_nothing_was_committed(error)):
            return
        try:
            self.discard()
        except OSError:
            # The first error is the one to be seen; a vacuum finds what is left.
            _log.exception("could not remove %s", self.uri)

    def entrust(self) -> None:
        """Say, right before the commit, that its files now belong to it.

        From here on they are deleted only by ``discard`` or by an error that says that nothing was committed: after a kill or
        a lost answer the log may name them.
        """
        self._entrusted = True

    def discard(self) -> None:
        """Delete the files, and every directory that did not exist before."""
        self._entrusted = False
        directory = f"{self._root}/{self.name}"
        if self._filesystem.get_file_info(directory).type != pafs.FileType.NotFound:
            self._filesystem.delete_dir(directory)
        for each in self._missing:
            try:
                each.rmdir()
            except OSError:  # gone, or in use by others by now
                break

    def list_files(self, folder: str) -> list[pafs.FileInfo]:
        """The data files below a folder of this directory; sizes in bytes."""
        selector = pafs.FileSelector(f"{self._root}/{self.name}/{folder}", allow_not_found=True, recursive=True)
        files = (each for each in self._filesystem.get_file_info(selector) if each.type == pafs.FileType.File)
        return [each for each in files if each.extension == "parquet" and each.base_name[0] not in "._"]

    def log_path(self, path: str) -> str:
        """A listed file of this directory as the log spells it: relative to the table, percent-encoded."""
        return log_path(path.removeprefix(self._root).lstrip("/"))


def _says_nothing_was_committed(error: BaseException) -> bool:
    return isinstance(error, DeltaError) and not isinstance(error, CommitStateUnknownError)


def _missing_directories(filesystem: pafs.FileSystem, root: str) -> list[Path]:
    """The table's directory and those above it that do not exist yet, deepest first; object stores have none."""
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return []
    path = Path(root)
    return [each for each in (path, *path.parents) if not each.exists()]
