"""Resolves the path of a file in the log, and checks that the table may read it.

Anyone who can write below a table can write anything into its log, and a job that reads the table may have access to other
data. So a path is followed only below the table's root, below prefixes that the reader allows, and below the sources of a
shallow clone. What the log says about its sources proves nothing. The proof is a file beside the source, which only a writer of
the source can have created, as ``shallow_clone`` does (``core/operations/clone_sources.py``).

Protocol: PROTOCOL.md, "Add File and Remove File": a path is a URI, percent-encoded once, relative to the root unless it has a
scheme or begins with a slash.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from airflow_delta.core.errors import InvalidStatementError, MissingDataFileError, PathOutsideTableError
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.place import Place
from airflow_delta.core.storage.storage_failures import read_data
from airflow_delta.core.storage.table_uri import ABSOLUTE, is_relative

CLONE_SOURCES = "_airflow_delta/clone_sources.json"
"""Path below a shallow clone of a JSON list: the roots of its source tables. An entry counts if the source confirms it."""

_MOST_BYTES = 1 << 16
_MOST_SOURCES = 16
_SUSPICIOUS = rf"{ABSOLUTE}|\.\.|%2[eE]|\x00|%00"
# Dot segments, with slashes of either kind, encoded or not: no writer needs them, and layers resolve them differently.
_UP = r"(^|[/\\]|%2[fF]|%5[cC])(\.|%2[eE])(\.|%2[eE])($|[/\\]|%2[fF]|%5[cC])|\x00|%00"


def clone_record(clone: Place) -> str:
    """The file below a source that confirms that this clone may read the source's files."""
    return f"_airflow_delta/clones/{hashlib.sha256(f'{clone.volume}{clone.path}'.encode()).hexdigest()[:32]}.json"


class FileLocator:
    """Locates the files of one table."""

    def __init__(
        self,
        data_filesystem: Callable[[str | None], tuple[pyarrow.fs.FileSystem, str]],
        table_uri: str,
        allowed_prefixes: Iterable[str] = (),
    ) -> None:
        """Nothing is opened yet.

        Args:
            data_filesystem: ``LogStore.data_filesystem``, or a ``TableFilesystems``, which can be sent to other processes.
                Called for each file, as storage credentials may expire; it must be cheap while nothing has changed.
            table_uri: The table's root.
            allowed_prefixes: URIs outside of the root that may be read.
        """
        self._data_filesystem = data_filesystem
        self._table = table_uri
        self._allowed = tuple(allowed_prefixes)
        self._directories: dict[str, str] = {}

    @classmethod
    def from_store(cls, store: LogStore) -> FileLocator:
        """The locator for a table's store."""
        return cls(store.data_filesystem, store.table_uri, getattr(store, "allowed_prefixes", ()))  # user's stores may lack it

    @property
    def root(self) -> tuple[pyarrow.fs.FileSystem, str]:
        """The table's own filesystem, and the root in it."""
        return self._data_filesystem(None)

    @cached_property
    def place(self) -> Place:
        """The table's root."""
        return Place.from_uri(self._table)

    def __call__(self, path: str) -> tuple[pyarrow.fs.FileSystem, str]:
        """The filesystem, and the path in it, of a file that the log names ``path``.

        Raises:
            PathOutsideTableError: The file lies where this table may not read.
        """
        decoded = unquote(path)
        if ".." in decoded.replace("\\", "/").split("/") or "\0" in decoded:
            raise self._outside(path)
        if not is_relative(path):
            if not self._may_read(decoded):
                raise self._outside(path)
            return self._data_filesystem(decoded)
        filesystem, root = self.root
        place = f"{root}/{decoded}"
        if isinstance(filesystem, pyarrow.fs.LocalFileSystem) and not self._leads_to_readable(place):
            raise self._outside(path)
        return filesystem, place

    def check(self, paths: pa.ChunkedArray) -> None:
        """Return if the table may read all these paths of the log; a link to a file is only noticed when the file is opened.

        Uses Arrow: only one Python object is made for each directory outside of the root.

        Raises:
            PathOutsideTableError: The table may not read one of them.
        """
        paths = paths.filter(pc.match_substring_regex(paths, _SUSPICIOUS))
        upward = paths.filter(pc.match_substring_regex(paths, _UP))
        if len(upward):
            raise self._outside(upward[0].as_py())
        absolute = paths.filter(pc.match_substring_regex(paths, ABSOLUTE))
        directories = pc.replace_substring_regex(absolute, "[^/]*$", "")
        for directory in directories.unique().to_pylist():
            if not self._may_read(unquote(directory)):
                for path in absolute.filter(pc.equal(directories, directory)).to_pylist():
                    self(path)

    def _may_read(self, uri: str) -> bool:
        """Whether the absolute path is below the root, an allowed prefix or a source of this clone."""
        try:
            place = Place.from_uri(uri)
        except InvalidStatementError:
            return False
        known = any(prefix.holds(place) for prefix in self._prefixes)
        return known or any(source.holds(place) for source in self.sources.values())

    def _leads_to_readable(self, file: str) -> bool:
        """Whether the local file, or the one that links lead to, is one that this table may read."""
        parent, _, name = file.rpartition("/")
        directory = self._directories.get(parent)
        if directory is None:
            directory = self._directories[parent] = os.path.realpath(parent)
        real = f"{directory}/{name}"
        if os.path.islink(real):  # noqa: PTH114 - unlike Path.is_symlink it answers for names that no file can have
            real = os.path.realpath(real)
        return PurePosixPath(real).is_relative_to(self.place.path) or self._may_read(real)

    @cached_property
    def _prefixes(self) -> tuple[Place, ...]:
        return (self.place, *map(Place.from_uri, self._allowed))

    @cached_property
    def sources(self) -> dict[str, Place]:
        """The roots of the tables that confirm that this table is their clone; only those in its own bucket are read."""
        filesystem, root = self.root

        def read() -> bytes:
            with filesystem.open_input_file(f"{root}/{CLONE_SOURCES}") as stream:
                content: bytes = stream.read(_MOST_BYTES)
                return content

        try:
            uris = json.loads(read_data(read, table=self._table, file=CLONE_SOURCES))
        except (MissingDataFileError, ValueError, RecursionError):
            return {}
        named = (
            [uri for uri in uris[:_MOST_SOURCES] if isinstance(uri, str) and not is_relative(uri)]
            if isinstance(uris, list)
            else []
        )
        return {uri: place for uri in named if (place := self._agreeing(uri)) is not None}

    def _agreeing(self, source: str) -> Place | None:
        """The root of this source, if it confirms that this table is its clone; else None."""
        try:
            place = Place.from_uri(source)
        except InvalidStatementError:
            return None
        if place.volume != self.place.volume:
            return None
        filesystem, root = self._data_filesystem(source)
        record = f"{root}/{clone_record(self.place)}"
        found = read_data(lambda: filesystem.get_file_info(record), table=self._table, file=record)
        return place if found.type == pyarrow.fs.FileType.File else None

    def _outside(self, path: str) -> PathOutsideTableError:
        return PathOutsideTableError(table=self._table, path=path)
