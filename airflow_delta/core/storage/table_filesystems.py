"""The filesystems of a table's data files, here and in the Python workers of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.fs

from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.object_location import ObjectLocation
from airflow_delta.core.storage.renewed_options import current_options


class TableFilesystems:
    """The filesystems of a table's data files: nearly all below its root, some (of clones) elsewhere.

    Only URI and options are sent to other processes; filesystems are created there, and again when the options change.
    """

    def __init__(self, table_uri: str, storage_options: Mapping[str, Any] | None = None) -> None:
        """Nothing is opened yet; ``storage_options`` are fsspec's, and may be secret."""
        self._table_uri = table_uri
        self._options: Mapping[str, Any] = {} if storage_options is None else storage_options
        self._location = ObjectLocation.from_uri(table_uri)
        self._made: tuple[Mapping[str, Any], tuple[pyarrow.fs.FileSystem, str]] | None = None

    def __reduce__(self) -> tuple[type[TableFilesystems], tuple[str, Mapping[str, Any]]]:
        return type(self), (self._table_uri, self._options)

    def __call__(self, uri: str | None = None) -> tuple[pyarrow.fs.FileSystem, str]:
        """The filesystem of the root, or of a file that the log names by this URI, and the path in it.

        The options are only used for URIs of the service and account that they were given for.

        Raises:
            UnsupportedStorageError: There is no such filesystem, or it cannot be used here.
        """
        if uri is None:
            return self._root()
        location, own = ObjectLocation.from_uri(uri), self._location
        if location is None or own is None or (location.service, location.host) != (own.service, own.host):
            return data_filesystem(uri)
        if location.container == own.container:
            return self._root()[0], location.path
        return data_filesystem(uri, current_options(self._options))

    def _root(self) -> tuple[pyarrow.fs.FileSystem, str]:
        options, made = current_options(self._options), self._made
        if made is None or made[0] != options:
            made = self._made = (options, data_filesystem(self._table_uri, options))
        return made[1]
