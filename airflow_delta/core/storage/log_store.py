"""The interface between the core and a filesystem, and its contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import pyarrow.fs

UNFINISHED = b"\0"
"""First byte of an incomplete file, on filesystems that show files while they are written. JSON never begins like this."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file as a listing shows it.

    Attributes:
        path: Path below the table's root, with ``/``, not percent-encoded.
        size: Size in bytes.
        modification_time: Milliseconds since the epoch.
        version: Changes whenever the content changes, as reported by an object store (an ETag, a generation); empty if not
            reported.
    """

    path: str
    size: int
    modification_time: int
    version: str = ""


class LogStore(Protocol):
    """Access to a table's files, on the driver and in Airflow. Paths are relative to the table's root.

    Every Delta commit relies on three guarantees: creating a file is exclusive, content appears completely or not at all, and
    the next listing shows what was written. Every implementation passes ``tests/core/storage/log_store_contract.py``. A missing
    directory lists as empty. Only writing a file creates its directory.
    """

    @property
    def table_uri(self) -> str:
        """The table's root as the user wrote it, without a trailing slash."""
        ...

    def read(self, path: str) -> bytes:
        """The whole content. Raises ``FileNotFoundError``."""
        ...

    def open_input(self, path: str) -> BinaryIO:
        """The file for random reads (Parquet footers, column chunks). Raises ``FileNotFoundError``."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the file exists now; one request, never from a cache."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """The file exactly as a listing would show it now; None if it does not exist."""
        ...

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Create the file atomically, or leave the storage unchanged.

        Of concurrent writers of a path exactly one succeeds; readers see all of ``content`` or no file.

        Raises:
            FileExistsError: The file exists; perhaps created by this very call, if its answer was lost and it was repeated.
            StorageAccessError: The storage denies access, or is full. Nothing was written.
            OSError: Any other failure; it is unknown whether the file exists.
        """
        ...

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file; readers see either the former content or all of ``content``."""
        ...

    def open_output(self, path: str) -> BinaryIO:
        """A stream whose content becomes the file on close, as a whole; an exception inside ``with`` leaves no file."""
        ...

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The files directly below ``directory`` whose names are >= ``start``, sorted by name."""
        ...

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """Every file below ``directory`` whose path there is >= ``start``, at any depth and in any order; hidden ones, too."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files, in bulk if the storage supports it; missing ones are ignored."""
        ...

    @property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """URIs outside of the root from which the table's files may be read: see ``FileLocator``."""
        ...

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """The options, as fsspec names them, with which other processes reach the table's data files; perhaps secret."""
        ...

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """Arrow's filesystem of the table's data files, with the store's own options, and the path of the table's root in it.

        Args:
            uri: Instead of the root, a file or table that the log names by an absolute URI (not percent-encoded).

        Raises:
            UnsupportedStorageError: This environment has no such filesystem.
        """
        ...
