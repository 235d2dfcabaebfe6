"""The rows of a table's data files, without those deleted by deletion vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.data_files.deletion_vector import deletion_vector_path, inline_deletion_vector, stored_deletion_vector
from airflow_delta.core.data_files.reader import open_data_file
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.errors import CorruptDataFileError
from airflow_delta.core.schema import StructType, physical_name
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.storage_failures import read_data

_DELETION_VECTOR = "its deletion vector: "


class FileRows:
    """The rows of a table's data files, one file after the other, with a common schema."""

    def __init__(
        self,
        locate: FileLocator,
        schema: StructType,
        partition_columns: Sequence[str],
        *,
        table: str,
        **options: Any,
    ) -> None:
        """Store which columns to read, which may include partition columns.

        Args:
            locate: Resolves paths of the log.
            schema: The columns to read.
            partition_columns: Logical names of the table's partition columns.
            table: URI of the table, for errors.
            options: ``batch_rows``, ``by_id``, ``with_row_index`` and ``use_threads`` of ``open_data_file``.
        """
        self._table = table
        self._schema = schema
        self._partitions = [physical_name(field) for field in schema.fields if field.name in partition_columns]
        self._options = options
        self._locate = locate

    def of(
        self,
        path: str,
        partition_values: Mapping[str, str | None],
        *,
        shown_by: Mapping[str, Any] | None = None,
        hidden_by: Mapping[str, Any] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file, with the ``arrow_schema`` of the columns to read.

        Args:
            path: Path as in the log.
            partition_values: Partition values as in the log; a missing one is NULL.
            shown_by: A deletion vector; if given, only the rows in it are returned.
            hidden_by: A deletion vector; the rows in it are not returned.

        Raises:
            CorruptDataFileError: The file or a deletion vector does not match the log.
        """
        for batch, kept in self.masked(path, partition_values, shown_by=shown_by, hidden_by=hidden_by):
            yield batch if kept is None else batch.filter(kept)

    def of_each(self, files: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """As ``of``, for each of these files: ``path``, ``partition_values`` and ``deletion_vector`` of ``ADD_FILE``."""
        for file in files:
            yield from self.of(file["path"], dict(file["partition_values"]), hidden_by=file["deletion_vector"])

    def masked(
        self,
        path: str,
        partition_values: Mapping[str, str | None],
        *,
        shown_by: Mapping[str, Any] | None = None,
        hidden_by: Mapping[str, Any] | None = None,
    ) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray | None]]:
        """As ``of``, but returns all rows, each batch with a mask of those to keep; None to keep all."""
        filesystem, place = self._locate(path)
        shown, hidden = (None if descriptor is None else self.hidden(path, descriptor) for descriptor in (shown_by, hidden_by))
        constants = {name: partition_values.get(name) for name in self._partitions}
        first = 0
        for batch in open_data_file(filesystem, place, self._schema, constants, **self._options, table=self._table):
            rows, first = batch.num_rows, first + batch.num_rows
            with self._believing_deletion_vectors(path):
                kept = _kept(first - rows, rows, shown, hidden)
            yield batch, kept

    def hidden(self, file: str, descriptor: Mapping[str, Any]) -> RowBitmap:
        """The rows in a deletion vector of this file.

        Raises:
            CorruptDataFileError: It does not match the log, or its file is missing; ``file`` is that file, if it has one.
        """
        with self._believing_deletion_vectors(file):
            path = deletion_vector_path(descriptor)
            if path is None:
                return inline_deletion_vector(descriptor)
        place = self._locate(path)
        return read_data(
            lambda: stored_deletion_vector(descriptor, *place),
            table=self._table,
            file=path,
            about=f"the deletion vector of {file}: ",
        )

    @contextmanager
    def _believing_deletion_vectors(self, file: str) -> Iterator[None]:
        try:
            yield
        except (TypeError, ValueError) as error:
            raise CorruptDataFileError(table=self._table, file=file, detail=f"{_DELETION_VECTOR}{error}") from error


def _kept(first: int, rows: int, shown: RowBitmap | None, hidden: RowBitmap | None) -> pa.BooleanArray | None:
    """Which of the rows from position ``first`` on to keep; None to keep all."""
    kept = None if shown is None else shown.mask(first, rows)
    if hidden is not None and (mask := hidden.mask(first, rows)).true_count:
        kept = pc.invert(mask) if kept is None else pc.and_not(kept, mask)
    return kept
