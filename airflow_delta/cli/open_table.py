"""Opens the table named on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from airflow_delta.catalogs.catalog import resolve
from airflow_delta.catalogs.errors import InvalidTableNameError
from airflow_delta.catalogs.managed_tables import ManagedTable, VendedOptions, vended_with
from airflow_delta.catalogs.settings import open_catalog, settings_of_environment
from airflow_delta.catalogs.table_name import TableName, is_path
from airflow_delta.cli.arguments import arguments
from airflow_delta.cli.output import Work
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.storage.resolve import log_store_for


def open_table(uri: str, storage_options: Iterable[str] | None) -> DeltaLog:
    """The log of the table at ``uri``.

    Args:
        uri: A URI, a local path (which may be relative to the working directory) or, with a catalog, a name.
        storage_options: Options as ``KEY=VALUE``; a value is text, ``true``, ``false`` or a JSON object.

    Raises:
        CommandLineError: An option is not KEY=VALUE.
        TableNameNotFoundError: The catalog has no table of the name. The other errors of ``catalogs.errors`` are raised, too.
        UnsupportedStorageError: The filesystem cannot hold a log safely.
    """
    return DeltaLog(_store(uri, storage_options, lambda files: files))


def open_observed_table(uri: str, storage_options: Iterable[str] | None, work: Work) -> DeltaLog:
    """As ``open_table``; ``work`` counts the files listed and deleted."""
    return DeltaLog(_store(uri, storage_options, lambda files: cast("LogStore", _ObservedStore(files, work))))


def _store(table: str, storage_options: Iterable[str] | None, observed: Callable[[LogStore], LogStore]) -> LogStore:
    """The table's files: by its path, or by its name in the catalog of ``--catalog`` or the environment."""
    settings, options = settings_of_environment(), parsed_options(storage_options)
    if settings is None and not is_path(table) and not Path(table).exists():
        detail = "there is no such folder, and no catalog that might know it as a name"
        cure = "name the catalog with --catalog or AIRFLOW_DELTA_CATALOG, such as --catalog glue; or name the table by its path"
        raise InvalidTableNameError(name=table[:255], detail=detail, cure=cure)
    if settings is None or is_path(table):
        return observed(log_store_for(table, options))
    entry = resolve(open_catalog(settings), TableName.parse(table))
    managed = ManagedTable.of(entry)

    def open_files(vended: VendedOptions | None) -> LogStore:
        return observed(log_store_for(entry.location, vended_with(entry.location, options, vended)))

    return open_files(None) if managed is None else managed.log_store(open_files, settings)


@arguments()
def parsed_options(storage_options: Iterable[str] | None) -> dict[str, Any]:
    """The options from ``--storage-option``. Raises ``CommandLineError`` for one that is not KEY=VALUE."""
    options: dict[str, Any] = {}
    for text in storage_options or ():
        key, separator, value = text.partition("=")
        if not separator:
            raise InvalidStatementError(statement=f"the storage option {key!r}", detail="expected KEY=VALUE")
        options[key] = _value(key, value)
    return options


def _value(key: str, text: str) -> Any:
    """The value of an option: ``true``, ``false`` and JSON objects are converted; anything else, such as digits, stays text."""
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    try:
        return json.loads(text) if text.startswith("{") else text
    except ValueError:
        detail = "the value begins with '{' but is not valid JSON"
        raise InvalidStatementError(statement=f"the storage option {key!r}", detail=detail) from None


class _ObservedStore:
    """A store that reports progress; everything else is delegated to the wrapped store."""

    def __init__(self, store: LogStore, work: Work) -> None:
        self._store = store
        self._work = work

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """Yield every file below ``directory``, and count it."""
        for status in self._store.list_all(directory, start):
            self._work.done("Listing files")
            yield status

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files, and count them."""
        listed = list(paths)
        self._store.delete(listed)
        self._work.done("Deleting files", len(listed))
