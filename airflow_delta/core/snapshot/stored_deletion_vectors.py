"""Reading and writing of a table's deletion vectors, so that two commits' deletions can be merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_delta.core.data_files.deletion_vector import deletion_vector_path, inline_deletion_vector, stored_deletion_vector
from airflow_delta.core.data_files.deletion_vector_writer import write_deletion_vectors
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.errors import CorruptDataFileError
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.storage_failures import read_data

_UNREADABLE = "the deletion vector cannot be read: "
_NO_ROWS = RowBitmap({})


class StoredDeletionVectors:
    """Reads deletion vectors from wherever the log places them, and writes new ones below the table's root."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._locate = FileLocator.from_store(store)

    def read(self, deletion_vectors: pa.StructArray) -> list[RowBitmap]:
        """The deleted rows of each deletion vector (``DELETION_VECTOR``); empty for NULL.

        Raises:
            CorruptDataFileError: A deletion vector does not match the log.
        """
        return [_NO_ROWS if descriptor is None else self._rows(descriptor) for descriptor in deletion_vectors.to_pylist()]

    def write(self, rows: Sequence[RowBitmap]) -> pa.StructArray:
        """Store the deleted rows of each file; returns the deletion vectors (``DELETION_VECTOR``)."""
        filesystem, root = self._store.data_filesystem()
        return write_deletion_vectors(filesystem, root, rows)

    def _rows(self, descriptor: Mapping[str, Any]) -> RowBitmap:
        table, path = self._store.table_uri, str(descriptor["path_or_inline_dv"])
        try:
            located = deletion_vector_path(descriptor)
            if located is None:
                return inline_deletion_vector(descriptor).checked()
        except (TypeError, ValueError) as error:
            raise CorruptDataFileError(table=table, file=path, detail=f"{_UNREADABLE}{error}") from error
        place = self._locate(located)
        return read_data(
            lambda: stored_deletion_vector(descriptor, *place).checked(), table=table, file=located, about=_UNREADABLE
        )
