"""The port between the core and a filesystem, and its contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import pyarrow.fs

UNFINISHED = b"\0"
"""How a file begins that is still being written, on filesystems that show it before it is whole. No JSON begins like this."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file as a listing shows it.

    Attributes:
        path: Path below the table's root, with ``/``, not percent-encoded.
        size: Bytes.
        modification_time: Milliseconds since the epoch.
        version: What changes when the content does, as an object store says it (an ETag, a generation); empty where none does.
    """

    path: str
    size: int
    modification_time: int
    version: str = ""


class LogStore(Protocol):
    """The only door to a table's files on the driver and in Airflow. Paths are relative to the table's root.

    Three guarantees carry every Delta commit: a create is exclusive, content appears whole or not at all, and what was written
    is seen by the next listing. Every implementation passes ``tests/core/storage/log_store_contract.py``.
    A missing directory lists as empty. No call creates a directory except a write into it.
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
        """Whether the file is there now; one request, never from a cache."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """The file exactly as a listing would show it now; None when it is not there."""
        ...

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Create the file in one step, or leave the storage as it was.

        Of the writers racing for one path exactly one returns; readers see all of ``content`` or no file.

        Raises:
            FileExistsError: The path is held; possibly by this very call, when its answer was lost and it was sent again.
            StorageAccessError: The storage refuses, or is full. Nothing was written.
            OSError: Anything else; whether the file is there is unknown.
        """
        ...

    def write(self, path: str, content: bytes) -> None:
        """Create or replace the file; readers see the former content or all of ``content``."""
        ...

    def open_output(self, path: str) -> BinaryIO:
        """A stream whose content becomes the file when it is closed, whole; an exception inside ``with`` leaves nothing."""
        ...

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStatus]:
        """The files right below ``directory`` whose names are >= ``start``, in the order of their names."""
        ...

    def list_all(self, directory: str = "", start: str = "") -> Iterator[FileStatus]:
        """Every file below ``directory`` whose path there is >= ``start``, at any depth, in no order; hidden ones too."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete the files, in bulk where the storage can; those already gone are no error."""
        ...

    @property
    def allowed_prefixes(self) -> tuple[str, ...]:
        """URIs of the places outside of the root from which the table's files may be read: see ``FileLocator``."""
        ...

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """What other processes need to reach the table's data files, as fsspec names it; may be secret. Empty: nothing."""
        ...

    def data_filesystem(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """Arrow's filesystem of the table's data files, with the store's own options, and the path of the table's root there.

        Args:
            uri: Instead of the root, a file or table that the log names by its absolute URI (not percent-encoded).

        Raises:
            UnsupportedStorageError: There is none here.
        """
        ...
