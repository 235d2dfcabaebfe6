"""The files of Iceberg metadata, below the table's ``metadata/``, accessed through the same store as Delta's log.

Names are those of Iceberg's file-system catalogs: ``v<n>.metadata.json`` with ascending n, and ``version-hint.text``.
Specification: https://iceberg.apache.org/spec/, "File System Tables".
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from airflow_delta.core.errors import PathOutsideTableError
from airflow_delta.core.operations.iceberg.bounded_avro import MOST_BYTES, check_bounded
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_uri import local_path, scheme_of
from airflow_delta.core.table_features.iceberg_compat import METADATA_FOLDER

FOLDER: Final = METADATA_FOLDER
HINT: Final = f"{FOLDER}/version-hint.text"

UNREADABLE: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    FileNotFoundError,
    LookupError,
    NotImplementedError,  # pyiceberg, for an unknown Avro schema or type
    PathOutsideTableError,
    RecursionError,
    ResolveError,
    TypeError,
    ValidationError,
    ValueError,
    zlib.error,
)
"""What reading invalid metadata may raise; the metadata is then made anew from the log."""

_ENTRY = re.compile(rf"{FOLDER}/v([1-9][0-9]{{0,17}})\.metadata\.json")
_MOST_STEPS = 100
"""Most metadata files tried one by one, starting from the hint; beyond that, a listing finds the newest."""


def location_of(store: LogStore) -> str:
    """The table's root as Iceberg readers know it; a local one as ``file:///``."""
    uri = store.table_uri
    return f"file://{local_path(uri)}" if scheme_of(uri) == "file" else uri.rstrip("/")


def metadata_path(number: int) -> str:
    """The path of a metadata file below the table's root."""
    return f"{FOLDER}/v{number}.metadata.json"


def number_of(path: str) -> int | None:
    """The number of a metadata file; None for another file."""
    found = _ENTRY.fullmatch(path)
    return int(found[1]) if found else None


def latest_number(store: LogStore) -> int:
    """The number of the newest metadata file, whatever the hint says; 0 where there is none."""
    hinted = _hinted(store)
    if hinted is not None and store.exists(metadata_path(hinted)):
        for number in range(hinted, hinted + _MOST_STEPS):
            if not store.exists(metadata_path(number + 1)):
                return number
    return max((number_of(file.path) or 0 for file in store.list_from(FOLDER, "v")), default=0)


def create_metadata(store: LogStore, number: int, content: bytes) -> bool:
    """Write a metadata file atomically; False if another writer has taken the number.

    A store may also report that the file exists because its answer to this very call was lost and the call was repeated.
    """
    try:
        store.write_if_absent(metadata_path(number), content)
    except FileExistsError:
        return store.read(metadata_path(number)) == content
    return True


def point_to(store: LogStore, number: int) -> None:
    """Make ``version-hint.text`` name this metadata file, or a newer one, as the one for readers to open.

    Hint and file are not written atomically, so the hint of an earlier file may be written after that of a later one. Each
    writer therefore checks again after writing its hint, so that the last hint names the newest file.
    """
    store.write(HINT, str(number).encode())
    while store.exists(metadata_path(number + 1)):
        number += 1
        store.write(HINT, str(number).encode())


def read_metadata(store: LogStore, number: int) -> TableMetadata | None:
    """A metadata file; None if it is missing or invalid, so that it must be made anew."""
    status = store.status(metadata_path(number))
    if status is None or status.size > MOST_BYTES:
        return None
    try:
        return TableMetadataUtil.parse_raw(store.read(metadata_path(number)).decode())
    except UNREADABLE:
        return None


def _hinted(store: LogStore) -> int | None:
    try:
        text = store.read(HINT).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return number_of(metadata_path(int(text))) if text.isascii() and text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004


class TableFileIO(FileIO):
    """Reads and writes files below ``metadata/`` of one table; refuses all other files."""

    def __init__(self, store: LogStore, location: str) -> None:
        super().__init__()
        self._store = store
        self._root = f"{location}/"

    def new_input(self, location: str) -> InputFile:
        """A file to read."""
        return _Input(self._store, self.path(location), location)

    def new_output(self, location: str) -> OutputFile:
        """A file to write."""
        return _Output(self._store, self.path(location), location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self.delete_all([location if isinstance(location, str) else location.location])

    def delete_all(self, locations: Iterable[str]) -> None:
        """Delete those of the files that exist."""
        self._store.delete([self.path(location) for location in locations])

    def path(self, location: str) -> str:
        """The path, below the root, of a file that Iceberg metadata names.

        Raises:
            PathOutsideTableError: It is not a file of the table's metadata.
        """
        path = location.removeprefix(self._root)
        if path == location or not re.fullmatch(rf"{FOLDER}/[\w.-]+", path) or ".." in path:
            raise PathOutsideTableError(table=self._store.table_uri, path=quote(location, safe=":/"))
        return path


class _Input(InputFile):
    def __init__(self, store: LogStore, path: str, location: str) -> None:
        super().__init__(location)
        self._store, self._path = store, path

    def __len__(self) -> int:
        status = self._store.status(self._path)
        if status is None:
            raise FileNotFoundError(self.location)
        return status.size

    def exists(self) -> bool:
        return self._store.exists(self._path)

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002 (pyiceberg's signature)
        if len(self) > MOST_BYTES:
            raise ValueError(f"{self._path} has more than {MOST_BYTES} bytes")
        content = self._store.read(self._path)  # manifests and manifest lists are small, so they are read as a whole
        check_bounded(content)
        return io.BytesIO(content)


class _Output(OutputFile):
    def __init__(self, store: LogStore, path: str, location: str) -> None:
        super().__init__(location)
        self._store, self._path = store, path
        self._stream: _Stream | None = None

    def __len__(self) -> int:
        return self._stream.size if self._stream else 0

    def exists(self) -> bool:
        return self._store.exists(self._path)

    def to_input_file(self) -> InputFile:
        return _Input(self._store, self._path, self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002, FBT001, FBT002 (names are unique)
        self._stream = _Stream(self._store, self._path)
        return self._stream


class _Stream(io.BytesIO):
    """A buffer that is written as a complete file when it is closed."""

    def __init__(self, store: LogStore, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path
        self.size = 0

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            self.size = len(content)
            self._store.write(self._path, content)
        super().close()
