"""A ``LogStore`` as an Arrow filesystem, for data files in stores that Arrow does not support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta.core.storage.log_store import FileStatus, LogStore


def log_store_filesystem(store: LogStore) -> pafs.PyFileSystem:
    """The filesystem over ``store``; paths are relative to the table's root, with or without a leading slash.

    Your own store can return it from ``data_filesystem()``, with the path ``""``.
    """
    return pafs.PyFileSystem(_LogStoreHandler(store))


class _LogStoreHandler(pafs.FileSystemHandler):  # type: ignore[misc]
    """Directories are only prefixes of names, as in an object store."""

    def __init__(self, store: LogStore) -> None:
        self._store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LogStoreHandler) and other._store is self._store

    def __hash__(self) -> int:
        return id(self._store)

    def get_type_name(self) -> str:
        return f"log-store:{type(self._store).__name__}"

    def normalize_path(self, path: str) -> str:
        return path.strip("/")

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        prefix = selector.base_dir.strip("/")
        found: dict[str, pafs.FileInfo] = {}
        for status in self._store.list_all(prefix):
            parts = status.path.removeprefix(f"{prefix}/").split("/")
            for depth in range(1, len(parts) if selector.recursive else min(2, len(parts))):
                directory = "/".join([prefix, *parts[:depth]]).lstrip("/")
                found[directory] = pafs.FileInfo(directory, pafs.FileType.Directory)
            if selector.recursive or len(parts) == 1:
                found[status.path] = _file(status.path, status)
        if not found and not selector.allow_not_found:
            raise FileNotFoundError(selector.base_dir)
        return list(found.values())

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self._store.open_input(path.strip("/")), mode="r")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Mapping[Any, Any]) -> pa.NativeFile:  # noqa: ARG002 - Arrow's signature
        return pa.PythonFile(self._store.open_output(path.strip("/")), mode="w")

    def open_append_stream(self, path: str, metadata: Mapping[Any, Any]) -> pa.NativeFile:
        # The error that Arrow expects of a filesystem that cannot append.
        raise NotImplementedError("files of a table are never appended to")

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - Arrow's signature
        """Does nothing: a directory exists as soon as a file in it does."""

    def delete_dir(self, path: str) -> None:
        self._store.delete(file.path for file in self._store.list_all(path.strip("/")))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the same
        self.delete_dir(path)

    def delete_root_dir_contents(self) -> None:
        self.delete_dir("")

    def delete_file(self, path: str) -> None:
        self._store.delete([path.strip("/")])

    def move(self, src: str, dest: str) -> None:
        self.copy_file(src, dest)
        self.delete_file(src)

    def copy_file(self, src: str, dest: str) -> None:
        self._store.write(dest.strip("/"), self._store.read(src.strip("/")))

    def _info(self, path: str) -> pafs.FileInfo:
        name = path.strip("/")
        status = self._store.status(name) if name else None
        if status:
            return _file(path, status)
        is_directory = not name or next(iter(self._store.list_all(name)), None) is not None
        return pafs.FileInfo(path, pafs.FileType.Directory if is_directory else pafs.FileType.NotFound)


def _file(path: str, status: FileStatus) -> pafs.FileInfo:
    return pafs.FileInfo(path, pafs.FileType.File, size=status.size, mtime_ns=status.modification_time * 1_000_000)
