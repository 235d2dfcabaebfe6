"""From what stands on the command line to a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from airflow_delta.cli.output import Work
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.storage.resolve import log_store_for


def open_table(uri: str, storage_options: Iterable[str] | None) -> DeltaLog:
    """The log of the table at ``uri``.

    Args:
        uri: A local path or a URI.
        storage_options: ``KEY=VALUE`` each.

    Raises:
        InvalidStatementError: An option is none.
        UnsupportedStorageError: The filesystem cannot hold a log safely.
    """
    return DeltaLog(_store(uri, storage_options))


def open_observed_table(uri: str, storage_options: Iterable[str] | None, work: Work) -> DeltaLog:
    """As ``open_table``; ``work`` is told how many files were listed and deleted."""
    return DeltaLog(cast("LogStore", _ObservedStore(_store(uri, storage_options), work)))


def _store(uri: str, storage_options: Iterable[str] | None) -> LogStore:
    options: dict[str, str] = {}
    for text in storage_options or ():
        key, separator, value = text.partition("=")
        if not separator:
            raise InvalidStatementError(statement=f"the storage option {key!r}", detail="it is not KEY=VALUE")
        options[key] = value
    return log_store_for(uri, options)


class _ObservedStore:
    """A store that tells how far long work has come; all else is the store's own."""

    def __init__(self, store: LogStore, work: Work) -> None:
        self._store = store
        self._work = work

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def list_all(self, directory: str = "") -> Iterator[FileStatus]:
        """Every file below ``directory``, counted."""
        for status in self._store.list_all(directory):
            self._work.done("Listing files")
            yield status

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files, and count them."""
        doomed = list(paths)
        self._store.delete(doomed)
        self._work.done("Deleting files", len(doomed))
