"""From live files to rows, in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from airflow_delta.core.data_files.deletion_vector import inline_vector, stored_vector, vector_path
from airflow_delta.core.data_files.reader import open_data_file
from airflow_delta.core.data_files.row_bitmap import RowBitmap
from airflow_delta.core.data_files.row_ids import ROW_COMMIT_VERSION, ROW_ID, RowIds
from airflow_delta.core.errors import CorruptDataFileError, SchemaMismatchError, UnsupportedReaderFeatureError
from airflow_delta.core.predicate import Expression, referenced_columns, to_arrow_expression
from airflow_delta.core.schema import StructType, arrow_schema, physical_name
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_uri import is_relative
from airflow_delta.core.table_features.feature import DELETION_VECTORS

READ_COLUMNS: Final = ("path", "partition_values", "deletion_vector", "base_row_id", "default_row_commit_version")
"""The columns of ``ADD_FILE`` that reading rows needs."""


def read_rows(
    *,
    store: LogStore,
    files: pa.Table,
    schema: StructType,
    partition_columns: Sequence[str],
    columns: Sequence[str] | None,
    predicate: Expression | None,
    by_id: bool = False,
    row_ids: RowIds | None = None,
) -> pa.RecordBatchReader:
    """The rows of these files (``READ_COLUMNS``) that the predicate selects and that no deletion vector hides.

    Args:
        store: The table's log.
        files: Its files, or some of them.
        schema: Its columns.
        partition_columns: Logical names of those that partition it.
        columns: Names of the columns wanted, in this order; all when None.
        predicate: Which rows; all when None.
        by_id: As of ``open_data_file``.
        row_ids: Where rows carry their ids: asks for the last columns ``ROW_ID`` and ``ROW_COMMIT_VERSION``.

    Raises:
        InvalidPredicateError: The predicate cannot be decided exactly here.
        SchemaMismatchError: A column is not in the table.
    """
    wanted = schema if columns is None else _selected(schema, columns, store.table_uri)
    exact = None if predicate is None else to_arrow_expression(predicate, table=store.table_uri)
    read = wanted if predicate is None else _with_columns(wanted, schema, referenced_columns(predicate))
    target = arrow_schema(wanted)
    names = target.names
    if row_ids is not None:
        read = StructType((*read.fields, *row_ids.fields))
        target = pa.schema([*target, (ROW_ID, pa.int64()), (ROW_COMMIT_VERSION, pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        rows = FileRows(store, read, partition_columns, by_id=by_id, with_row_index=row_ids is not None)
        for path, values, vector, base_row_id, version in _files(files):
            for batch in rows.of(path, values, hidden_by=vector):
                found = batch if exact is None else batch.filter(exact)
                if row_ids is None:
                    yield found.select(names)
                else:
                    ids = row_ids.columns(found, base_row_id, version)
                    yield pa.RecordBatch.from_arrays([*(found[name] for name in names), *ids], schema=target)

    return pa.RecordBatchReader.from_batches(target, batches())


class FileRows:
    """The rows of a table's data files, one file after the other, as one schema shows them."""

    def __init__(
        self,
        store: LogStore,
        schema: StructType,
        partition_columns: Sequence[str],
        *,
        by_id: bool = False,
        with_row_index: bool = False,
    ) -> None:
        """Take the columns wanted, partition columns among them included; options as of ``open_data_file``."""
        self._table_uri = store.table_uri
        self._schema = schema
        self._partitions = [physical_name(each) for each in schema.fields if each.name in partition_columns]
        self._options = {"by_id": by_id, "with_row_index": with_row_index}
        self._locate = Locator(store)

    def of(
        self,
        path: str,
        partition_values: Mapping[str, str | None],
        *,
        shown_by: Mapping[str, Any] | None = None,
        hidden_by: Mapping[str, Any] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file, as ``arrow_schema`` of the columns wanted.

        Args:
            path: As in the log.
            partition_values: As in the log; a missing one is NULL.
            shown_by: A deletion vector: only the rows in it count.
            hidden_by: A deletion vector: the rows in it do not count.

        Raises:
            CorruptDataFileError: The file or a deletion vector is not what the log says.
        """
        filesystem, place = self._locate(path)
        shown, hidden = (None if each is None else self._vector(each, path) for each in (shown_by, hidden_by))
        constants = {name: partition_values.get(name) for name in self._partitions}
        first = 0
        for batch in open_data_file(
            filesystem, place, self._schema, constants, **self._options, use_threads=True, table=self._table_uri
        ):
            rows, first = batch.num_rows, first + batch.num_rows
            with self._believing_vectors(path):
                kept = _kept(first - rows, rows, shown, hidden)
            yield batch if kept is None else batch.filter(kept)

    def _vector(self, vector: Mapping[str, Any], file: str) -> RowBitmap:
        with self._believing_vectors(file):
            path = vector_path(vector)
            return inline_vector(vector) if path is None else stored_vector(vector, *self._locate(path))

    @contextmanager
    def _believing_vectors(self, file: str) -> Iterator[None]:
        try:
            yield
        except (OSError, TypeError, ValueError) as error:
            detail = f"its deletion vector: {error}"
            raise CorruptDataFileError(table=self._table_uri, file=file, detail=detail) from error


class Locator:
    """From a path of the log to its filesystem; the table's own is made once."""

    def __init__(self, store: LogStore) -> None:
        self.store = store

    @cached_property
    def _root(self) -> tuple[pyarrow.fs.FileSystem, str]:
        return self.store.data_filesystem()

    def __call__(self, path: str) -> tuple[pyarrow.fs.FileSystem, str]:
        """The filesystem, and the path there, of a file that the log names by ``path``."""
        if not is_relative(path):
            return self.store.data_filesystem(unquote(path))
        filesystem, root = self._root
        return filesystem, f"{root}/{unquote(path)}"


def _kept(first: int, rows: int, shown: RowBitmap | None, hidden: RowBitmap | None) -> pa.BooleanArray | None:
    """Which of the rows from position ``first`` on count; None when all do."""
    kept = None if shown is None else shown.mask(first, rows)
    if hidden is not None and (mask := hidden.mask(first, rows)).true_count:
        kept = pc.invert(mask) if kept is None else pc.and_not(kept, mask)
    return kept


def refuse_deletion_vectors(table_uri: str, files: pa.Table) -> None:
    """Return if no file hides rows by a deletion vector: reading such a file whole would bring deleted rows back.

    Raises:
        UnsupportedReaderFeatureError: At least one file does.
    """
    vectors = files["deletion_vector"]
    if vectors.null_count < len(vectors):
        raise UnsupportedReaderFeatureError(table=table_uri, features=(DELETION_VECTORS,))


def _files(files: pa.Table) -> Iterator[tuple[str, dict[str, str | None], dict[str, Any] | None, int | None, int | None]]:
    """``READ_COLUMNS`` of each file."""
    for batch in files.select(READ_COLUMNS).to_batches():
        for path, values, *rest in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield path, dict(values), *rest


def _selected(schema: StructType, columns: Sequence[str], table_uri: str) -> StructType:
    found = {name: schema.find(name) for name in columns}
    missing = tuple(f"{name}: there is no such column" for name, field in found.items() if field is None)
    if missing:
        raise SchemaMismatchError(table=table_uri, differences=missing)
    return StructType(tuple(field for field in found.values() if field))


def _with_columns(wanted: StructType, schema: StructType, names: Collection[str]) -> StructType:
    return StructType(wanted.fields + tuple(each for each in schema.fields if each.name in names and each not in wanted.fields))
