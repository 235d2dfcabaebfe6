"""A table's store that keeps log files on this machine's disk once they were read.

Only files that never change are kept (commits, checkpoints with their sidecars, compacted commits, checksums), by version: an
entry is the content of one version that the store has reported. The current version of a path is taken from the latest listing
if that is recent; opening or refreshing a table starts with a listing, so for a log that is cached nothing else is requested.
Otherwise one request finds the version.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO, Protocol, TypeAlias, cast

from airflow_delta.core.storage.cached_object import CachedObject, version_key
from airflow_delta.core.storage.disk_cache import DiskCache
from airflow_delta.core.storage.fsspec_log_store import END_BYTES
from airflow_delta.core.storage.log_store import FileStatus, LogStore
from airflow_delta.core.storage.log_store_layer import LogStoreLayer
from airflow_delta.core.storage.object_answers import ObjectContent
from airflow_delta.core.storage.object_streams import RangeReader

_NEVER_CHANGED = re.compile(r"_delta_log/(\d{20}\..+|_sidecars/[^/]+\.parquet)")
_A_MOMENT = 30.0  # seconds for which a listing counts as recent

ReadRange: TypeAlias = Callable[[int, int], bytes]


class VersionedLogStore(LogStore, Protocol):
    """A ``LogStore`` that reports versions of files; those in its listings have the same form."""

    @property
    def scope(self) -> tuple[str, ...]:
        """A globally unique name of the table's root: paths below equal scopes are the same files."""
        ...

    def fetch(self, path: str) -> ObjectContent:
        """The whole file. Raises ``FileNotFoundError``."""
        ...

    def fetch_end(self, path: str) -> ObjectContent:
        """The last ``END_BYTES`` bytes of the file. Raises ``FileNotFoundError``."""
        ...

    def fetch_range(self, path: str, start: int, length: int, version: str) -> bytes:
        """A range of the file. Raises ``OSError`` if it has another version now."""
        ...


@dataclass(slots=True)
class _Listing:
    """What a listing has shown so far of files that never change; each version was current at some time after ``began``."""

    began: float
    files: dict[str, FileStatus] = field(default_factory=dict)


class CachingLogStore(LogStoreLayer):
    """A ``LogStore`` in front of another one: see the module. Thread-safe, if the other one is."""

    _store: VersionedLogStore

    def __init__(self, store: VersionedLogStore, cache: DiskCache, *, now: Callable[[], float] = time.monotonic) -> None:
        """``now`` returns seconds since any fixed time."""
        super().__init__(store)
        self._cache = cache
        self._now = now
        self._listing = _Listing(now())
        self._changed_here: set[str] = set()  # for these, an earlier listing is out of date

    def read(self, path: str) -> bytes:
        """The whole content."""
        if not _is_never_changed(path):
            return self._store.read(path)
        listed = self._listed(path)
        if listed is not None:
            content = self._cache.get(self._key(path, listed.version, listed.size), listed.size)
            if content is not None:
                return content
        found = self._store.fetch(path)
        if found.version:
            self._cache.put(self._key(path, found.version, found.size), found.content)
        return found.content

    def open_input(self, path: str) -> BinaryIO:
        """The file for random reads."""
        if not _is_never_changed(path):
            return self._store.open_input(path)
        listed = self._listed(path)
        if listed is not None:
            version = self._version(path, listed.version, listed.size)
            end = version.kept_end()
            if end is not None:
                return _reader(listed.size, end, version.read_at)
        found = self._store.fetch_end(path)
        if not found.version:  # an empty file, or a store that does not report versions
            return _reader(found.size, found.content, self._fetch(path, found.version))
        version = self._version(path, found.version, found.size)
        version.keep_end(found.content)
        return _reader(found.size, found.content, version.read_at)

    def exists(self, path: str) -> bool:
        """Whether the file is there now."""
        return self._store.exists(path)

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Create the file atomically, or leave the storage unchanged."""
        self._will_change(path)
        self._store.write_if_absent(path, content)

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file."""
        self._will_change(path)
        self._store.write(path, content)

    def open_output(self, path: str) -> BinaryIO:
        """A stream whose content becomes the file on close."""
        self._will_change(path)
        return self._store.open_output(path)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The files directly below ``directory``, from the name ``start`` on."""
        listing = self._listing = _Listing(self._now())
        for status in self._store.list_from(directory, start):
            if status.version and _is_never_changed(status.path):
                listing.files[status.path] = status
            yield status

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files."""

        def noted() -> Iterator[str]:
            for path in paths:
                self._will_change(path)
                yield path

        self._store.delete(noted())

    def _listed(self, path: str) -> FileStatus | None:
        """The file as the latest listing showed it, if that is recent."""
        listing = self._listing
        is_known = path not in self._changed_here and self._now() - listing.began <= _A_MOMENT
        return listing.files.get(path) if is_known else None

    def _will_change(self, path: str) -> None:
        if _is_never_changed(path):
            self._changed_here.add(path)

    def _key(self, path: str, version: str, size: int) -> str:
        return version_key((*self._scope, path), version, size)

    @cached_property
    def _scope(self) -> tuple[str, ...]:
        return self._store.scope

    def _version(self, path: str, version: str, size: int) -> CachedObject:
        key, fetch = self._key(path, version, size), self._fetch(path, version)
        return CachedObject(cache=self._cache, key=key, size=size, end_size=END_BYTES, fetch=fetch)

    def _fetch(self, path: str, version: str) -> ReadRange:
        return lambda start, length: self._store.fetch_range(path, start, length, version)


def _is_never_changed(path: str) -> bool:
    return _NEVER_CHANGED.fullmatch(path) is not None


def _reader(size: int, end: bytes, read_range: ReadRange) -> BinaryIO:
    return cast("BinaryIO", RangeReader(read_range, size=size, tail=end))
