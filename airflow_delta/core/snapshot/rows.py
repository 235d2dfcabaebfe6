"""From live files to rows, in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from airflow_delta.core.data_files.deletion_vector import FRAME_BYTES, deleted_rows, vector_path
from airflow_delta.core.data_files.reader import ROW_INDEX, open_data_file
from airflow_delta.core.errors import CorruptDataFileError, SchemaMismatchError, UnsupportedReaderFeatureError
from airflow_delta.core.predicate import Expression, referenced_columns, to_arrow_expression
from airflow_delta.core.schema import StructType, arrow_schema
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.table_uri import is_relative
from airflow_delta.core.table_features.feature import DELETION_VECTORS


def read_rows(
    *,
    store: LogStore,
    files: pa.Table,
    schema: StructType,
    partition_columns: Sequence[str],
    columns: Sequence[str] | None,
    predicate: Expression | None,
) -> pa.RecordBatchReader:
    """The rows of these files (``ADD_FILE``) that the predicate selects and that no deletion vector hides.

    Raises:
        InvalidPredicateError: The predicate cannot be decided exactly here.
        SchemaMismatchError: A column is not in the table.
    """
    wanted = schema if columns is None else _selected(schema, columns, store.table_uri)
    exact = None if predicate is None else to_arrow_expression(predicate, table=store.table_uri)
    read = wanted if predicate is None else _with_columns(wanted, schema, referenced_columns(predicate))
    target = arrow_schema(wanted)

    def batches() -> Iterator[pa.RecordBatch]:
        rows = FileRows(store, read, partition_columns)
        for path, values, vector in _files(files):
            for batch in rows.of(path, values, hidden_by=vector):
                yield (batch if exact is None else batch.filter(exact)).select(target.names)

    return pa.RecordBatchReader.from_batches(target, batches())


class FileRows:
    """The rows of a table's data files, one file after the other, as one schema shows them."""

    def __init__(self, store: LogStore, schema: StructType, partition_columns: Sequence[str]) -> None:
        """Take the columns wanted, partition columns among them included."""
        self._table_uri = store.table_uri
        self._schema = schema
        self._partition_columns = partition_columns
        self._locate = _Locator(store)

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
        shown, hidden = (None if each is None else _deleted_rows(each, self._locate, path) for each in (shown_by, hidden_by))
        constants = {name: partition_values.get(name) for name in self._partition_columns}
        with_row_index = shown is not None or hidden is not None
        for batch in open_data_file(
            filesystem, place, self._schema, constants, with_row_index=with_row_index, use_threads=True, table=self._table_uri
        ):
            rows = batch if shown is None else batch.filter(pc.is_in(batch[ROW_INDEX], shown))
            rows = rows if hidden is None else rows.filter(pc.invert(pc.is_in(rows[ROW_INDEX], hidden)))
            yield rows.select(rows.schema.names[:-1]) if with_row_index else rows


class _Locator:
    """From a path of the log to its filesystem; the table's own is made once."""

    def __init__(self, store: LogStore) -> None:
        self.store = store

    @cached_property
    def _root(self) -> tuple[pyarrow.fs.FileSystem, str]:
        return self.store.data_filesystem()

    def __call__(self, path: str) -> tuple[pyarrow.fs.FileSystem, str]:
        if not is_relative(path):
            return self.store.data_filesystem(unquote(path))
        filesystem, root = self._root
        return filesystem, f"{root}/{unquote(path)}"


def _deleted_rows(vector: Mapping[str, Any], locate: _Locator, file: str) -> pa.Int64Array:
    try:
        path = vector_path(vector)
        if path is None:
            return deleted_rows(vector, None)
        filesystem, place = locate(path)
        with filesystem.open_input_file(place) as stream:
            return deleted_rows(vector, stream.read_at(vector["size_in_bytes"] + FRAME_BYTES, vector["offset"]))
    except (OSError, TypeError, ValueError) as error:
        detail = f"its deletion vector: {error}"
        raise CorruptDataFileError(table=locate.store.table_uri, file=file, detail=detail) from error


def refuse_deletion_vectors(table_uri: str, files: pa.Table) -> None:
    """Return if no file hides rows by a deletion vector: reading such a file whole would bring deleted rows back.

    Raises:
        UnsupportedReaderFeatureError: At least one file does.
    """
    vectors = files["deletion_vector"]
    if vectors.null_count < len(vectors):
        raise UnsupportedReaderFeatureError(table=table_uri, features=(DELETION_VECTORS,))


def _files(files: pa.Table) -> Iterator[tuple[str, dict[str, str | None], dict[str, Any] | None]]:
    """Path, partition values and deletion vector of each file."""
    for batch in files.select(["path", "partition_values", "deletion_vector"]).to_batches():
        for path, values, vector in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield path, dict(values), vector


def _selected(schema: StructType, columns: Sequence[str], table_uri: str) -> StructType:
    found = {name: schema.find(name) for name in columns}
    missing = tuple(f"{name}: there is no such column" for name, field in found.items() if field is None)
    if missing:
        raise SchemaMismatchError(table=table_uri, differences=missing)
    return StructType(tuple(field for field in found.values() if field))


def _with_columns(wanted: StructType, schema: StructType, names: Collection[str]) -> StructType:
    return StructType(wanted.fields + tuple(each for each in schema.fields if each.name in names and each not in wanted.fields))
