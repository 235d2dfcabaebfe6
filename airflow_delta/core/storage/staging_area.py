"""The directory for a statement's new files, and its deletion if nothing is committed."""

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
    """A directory inside the table for the files of one statement, which are written to their final place.

    Use it as a context manager. Nothing is created before the first file is written. Leaving the block deletes the directory
    (and the table's own, if this statement created it), unless ``keep`` handed the files over to a commit. Its name starts with
    neither ``_`` nor a dot, so that the vacuum of every engine deletes what a killed job leaves behind.

    Attributes:
        store: The table's store.
        table_uri: The table's root.
        name: The directory, relative to the root.
        root: The table's root in its filesystem.
    """

    def __init__(self, table: LogStore | str, *, within: str | None = None) -> None:
        """Nothing is created yet.

        Args:
            table: The table's store, or its URI, for which the environment provides the options.
            within: A directory of the table to create it in; None is the table's root.
        """
        self.store = log_store_for(table) if isinstance(table, str) else table
        self.table_uri = self.store.table_uri
        self.name = f"{within}/write-{uuid.uuid4().hex}" if within else f"write-{uuid.uuid4().hex}"
        filesystem, self.root = self.store.data_filesystem()
        FileLocator.from_store(self.store)(self.name)  # raises if a directory is a link, which must not be written through
        self._missing = _missing_directories(filesystem, f"{self.root}/{within}" if within else self.root)
        self._is_kept = self._is_settled = False
        self._changes: Self | None = None

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The table's filesystem, looked up each time, as a statement may outlive the credentials of its storage."""
        return self.store.data_filesystem()[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_settled or (self._is_kept and (error is None or not _says_nothing_was_committed(error))):
            return
        self.abandon()

    @property
    def changes(self) -> Self:
        """The directory for change data files, below the table's ``_change_data``; kept or deleted together with this one."""
        if self._changes is None:
            self._changes = type(self)(self.store, within=_CHANGES)
        return self._changes

    def keep(self) -> None:
        """Mark the files as belonging to the commit; call right before committing.

        From here on only ``discard``, or an error which proves that nothing was committed, deletes them: after a kill or a lost
        answer the log may reference them. Call ``settle`` after the commit.
        """
        self._is_kept = True

    def settle(self, *, unused: bool) -> None:
        """Mark the commit as made: errors no longer delete its files.

        Args:
            unused: Whether the commit references none of the files, as when a duplicate attempt made it; they are deleted at
                once then.
        """
        if unused:
            self.abandon()
        else:
            self._is_settled = True

    def release(self) -> None:
        """Mark the commit as certainly not made, so that the files belong to this block again."""
        self._is_kept = False

    def discard(self) -> None:
        """Delete the files, and every directory that did not exist before."""
        self._is_kept = self._is_settled = False
        if self._changes is not None:
            self._changes.discard()
        directory = f"{self.root}/{self.name}"
        if ObjectLocation.from_uri(self.table_uri):  # Arrow would leave an empty object named like the table's directory
            self.store.delete([file.path for file in self.store.list_all(self.name)])
        elif self.filesystem.get_file_info(directory).type != pafs.FileType.NotFound:
            self.filesystem.delete_dir(directory)
        for parent in self._missing:
            try:
                parent.rmdir()
            except OSError:  # already deleted, or in use by others now
                break

    def abandon(self) -> None:
        """As ``discard``, but never raises, so as not to hide a commit or an error; a vacuum deletes what is left."""
        try:
            self.discard()
        except (OSError, DeltaError):
            _log.warning("could not remove %s/%s:\n%s", self.table_uri, self.name, printable_lines(traceback.format_exc()))


def _says_nothing_was_committed(error: BaseException) -> bool:
    return isinstance(error, DeltaError) and not isinstance(error, CommitStateUnknownError)


def _missing_directories(filesystem: pafs.FileSystem, root: str) -> list[Path]:
    """The directory and its parents that do not exist yet, deepest first; object stores have none."""
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return []
    path = Path(root)
    return [directory for directory in (path, *path.parents) if not directory.exists()]
