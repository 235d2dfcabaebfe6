"""The directory in which a statement's new files come to lie, and its end when nothing is committed."""

from __future__ import annotations

import logging
import traceback
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.fs as pafs

from airflow_delta.core.errors import CommitStateUnknownError, DeltaError
from airflow_delta.core.foreign_values import printable_lines
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.resolve import log_store_for

_log = logging.getLogger(__name__)

_CHANGES = "_change_data"


class StagingArea:
    """A directory inside the table for the files of one statement: they are written where they stay.

    Use it as a context manager. Nothing is created before the first file is written into it. Leaving the block deletes the
    directory (and the table's own, when this statement made it), unless ``keep`` handed the files to a commit. Its name starts
    with neither ``_`` nor a dot, so that every engine's vacuum reaches what a killed job leaves behind.

    Attributes:
        store: The table's.
        table_uri: The table's root.
        name: The directory, relative to the root.
        root: The table's root as its filesystem names it.
    """

    def __init__(self, table: LogStore | str, *, within: str | None = None) -> None:
        """Nothing is created yet.

        Args:
            table: The table's store; of a table that is given by its URI, the one that the environment has.
            within: A directory of the table to lie in; None is the table's own.
        """
        self.store = log_store_for(table) if isinstance(table, str) else table
        self.table_uri = self.store.table_uri
        self.name = f"{within}/write-{uuid.uuid4().hex}" if within else f"write-{uuid.uuid4().hex}"
        filesystem, self.root = self.store.data_filesystem()
        FileLocator.from_store(self.store)(self.name)  # linked directories are not written through
        self._missing = _missing_directories(filesystem, f"{self.root}/{within}" if within else self.root)
        self._is_kept = self._is_settled = False
        self._changes: Self | None = None

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The table's, as this process reaches it now: a statement may take longer than the keys of its storage."""
        return self.store.data_filesystem()[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_settled or (self._is_kept and (error is None or not _says_nothing_was_committed(error))):
            return
        self.abandon()

    @property
    def changes(self) -> Self:
        """Where the files go that say what changed: a directory below the table's ``_change_data``, which ends as this one."""
        if self._changes is None:
            self._changes = type(self)(self.store, within=_CHANGES)
        return self._changes

    def keep(self) -> None:
        """Say, right before the commit, that its files now belong to it.

        From here on they are deleted only by ``discard`` or by an error that says that nothing was committed: after a kill or
        a lost answer the log may name them. Behind the commit call ``settle``.
        """
        self._is_kept = True

    def settle(self, *, unused: bool) -> None:
        """Say that the commit was made: no error deletes its files any more.

        Args:
            unused: Whether it names none of them, as that of a duplicate attempt does not; they go at once then.
        """
        if unused:
            self.abandon()
        else:
            self._is_settled = True

    def release(self) -> None:
        """Say that the commit has certainly not been made, so that the files are this block's again."""
        self._is_kept = False

    def discard(self) -> None:
        """Delete the files, and every directory that did not exist before."""
        self._is_kept = self._is_settled = False
        if self._changes is not None:
            self._changes.discard()
        directory = f"{self.root}/{self.name}"
        if ObjectLocation.from_uri(self.table_uri):  # Arrow would leave an empty object in the name of the table's directory
            self.store.delete([file.path for file in self.store.list_all(self.name)])
        elif self.filesystem.get_file_info(directory).type != pafs.FileType.NotFound:
            self.filesystem.delete_dir(directory)
        for parent in self._missing:
            try:
                parent.rmdir()
            except OSError:  # gone, or in use by others by now
                break

    def abandon(self) -> None:
        """As ``discard``, and never raises: there is a commit, or an error, that is to be seen; a vacuum finds what is left."""
        try:
            self.discard()
        except (OSError, DeltaError):
            _log.warning("could not remove %s/%s:\n%s", self.table_uri, self.name, printable_lines(traceback.format_exc()))


def _says_nothing_was_committed(error: BaseException) -> bool:
    return isinstance(error, DeltaError) and not isinstance(error, CommitStateUnknownError)


def _missing_directories(filesystem: pafs.FileSystem, root: str) -> list[Path]:
    """The directory and those above it that do not exist yet, deepest first; object stores have none."""
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return []
    path = Path(root)
    return [directory for directory in (path, *path.parents) if not directory.exists()]
