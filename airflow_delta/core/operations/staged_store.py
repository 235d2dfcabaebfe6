"""A store that shows a table as it will be once a staged commit is published: that commit is its newest version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import BinaryIO, NoReturn

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.log.file_names import LOG_DIRECTORY, commit_path, parse_name
from airflow_delta.core.log.managed_commits import managing_catalog
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.storage.log_store_layer import LogStoreLayer

_LOG = f"{LOG_DIRECTORY}/"


class StagedStore(LogStoreLayer):
    """A read-only ``LogStore``: the log ends at the base version, followed by the staged commit."""

    def __init__(self, store: LogStore, document: FileStatus, content: bytes, base_version: int) -> None:
        """Show ``content``, that of the staged ``document``, as the commit after ``base_version`` (-1 for no table)."""
        super().__init__(store)
        self._content = content
        self._version = base_version + 1
        self._commit = FileStatus(commit_path(self._version), len(content), document.modification_time)

    def read(self, path: str) -> bytes:
        """As of ``LogStore``."""
        self._check(path)
        return self._content if path == self._commit.path else self._store.read(path)

    def open_input(self, path: str) -> BinaryIO:
        """As of ``LogStore``."""
        self._check(path)
        return BytesIO(self._content) if path == self._commit.path else self._store.open_input(path)

    def status(self, path: str) -> FileStatus | None:
        """As of ``LogStore``."""
        if path == self._commit.path:
            return self._commit
        return None if self._is_later(path) else self._store.status(path)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """As of ``LogStore``."""
        listed = self._store.list_from(directory, start)
        if directory.rstrip("/") != LOG_DIRECTORY:
            return listed
        found = [status for status in listed if not self._is_later(status.path)]
        if self._commit.path.removeprefix(_LOG) >= start:
            found.append(self._commit)
        return iter(sorted(found, key=lambda status: status.path))

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """As of ``LogStore``."""
        return (status for status in self._store.list_all(directory, start) if not self._is_later(status.path))

    @property
    def managed_by(self) -> str | None:
        """Name of the catalog that manages the table; None for a table without a catalog."""
        return managing_catalog(self._store)

    def write_if_absent(self, path: str, content: bytes) -> NoReturn:
        """Raises: a commit cannot be based on one that is not published."""
        del content
        self._refuse(path)

    def write(self, path: str, content: bytes) -> NoReturn:
        """Raises, as the store is read-only."""
        del content
        self._refuse(path)

    def open_output(self, path: str) -> NoReturn:
        """Raises, as the store is read-only."""
        self._refuse(path)

    def delete(self, paths: Iterable[str]) -> None:
        """Raises, as the store is read-only."""
        for path in paths:
            self._refuse(path)

    def _is_later(self, path: str) -> bool:
        """Whether it is a log file of the staged version, or of a version that others have committed since the base version."""
        name = parse_name(path.removeprefix(_LOG)) if path.startswith(_LOG) else None
        return name is not None and max(name.version, name.end or 0) >= self._version

    def _check(self, path: str) -> None:
        if path != self._commit.path and self._is_later(path):
            raise FileNotFoundError(path)

    def _refuse(self, path: str) -> NoReturn:
        detail = f"{self.table_uri} is read with a staged commit, so {path} cannot be written; publish it first"
        raise InvalidStatementError(statement="the statement", detail=detail)
