"""The files of Iceberg's metadata: below ``metadata/`` of the table, through the same door as Delta's log.

Names are those of Iceberg's file-system catalogs: ``v<n>.metadata.json`` with ascending n, and ``version-hint.text``.
Specification: https://iceberg.apache.org/spec/, "File System Tables".
"""

from __future__ import annotations

import io
import re
from typing import Final
from urllib.parse import quote

from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from airflow_delta.core.errors import PathOutsideTableError
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
    NotImplementedError,
    PathOutsideTableError,
    RecursionError,
    ResolveError,
    TypeError,
    ValidationError,
    ValueError,
)
"""What reading metadata may raise that is not as it should be: then it is made anew from the log."""

_ENTRY = re.compile(rf"{FOLDER}/v([1-9][0-9]{{0,17}})\.metadata\.json")
_MOST_BYTES = 64 << 20
"""Of a metadata file: it names a hundred snapshots; a longer one is not read."""


def location_of(store: LogStore) -> str:
    """The table's root as Iceberg's readers are told it; a local one as ``file:///``."""
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
    if hinted is None or not store.exists(metadata_path(hinted)):
        return max((number_of(file.path) or 0 for file in store.list_from(FOLDER, "v")), default=0)
    while store.exists(metadata_path(hinted + 1)):
        hinted += 1
    return hinted


def read_metadata(store: LogStore, number: int) -> TableMetadata | None:
    """A metadata file; None where it is none, so that it has to be made anew."""
    status = store.status(metadata_path(number))
    if status is None or status.size > _MOST_BYTES:
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
    """Reads and writes files below ``metadata/`` of one table; a file elsewhere is refused."""

    def __init__(self, store: LogStore, location: str) -> None:
        super().__init__()
        self._store = store
        self._root = f"{location}/"

    def new_input(self, location: str) -> InputFile:
        """A file to be read."""
        return _Input(self._store, self.path(location), location)

    def new_output(self, location: str) -> OutputFile:
        """A file to be written."""
        return _Output(self._store, self.path(location), location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self._store.delete([self.path(location if isinstance(location, str) else location.location)])

    def path(self, location: str) -> str:
        """The path below the root of a file that Iceberg's metadata names.

        Raises:
            PathOutsideTableError: It is no file of the table's metadata.
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
        return io.BytesIO(self._store.read(self._path))  # manifests are small, and read whole


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
    """Becomes the file, whole, when it is closed."""

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
