"""From live files to rows, in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from airflow_delta.core.data_files.file_rows import FileRows
from airflow_delta.core.data_files.row_ids import ROW_COMMIT_VERSION, ROW_ID, RowIds
from airflow_delta.core.errors import SchemaMismatchError, UnsupportedReaderFeatureError
from airflow_delta.core.predicate import Expression, referenced_columns, to_arrow_expression
from airflow_delta.core.schema import StructType, arrow_schema
from airflow_delta.core.storage.file_locator import FileLocator
from airflow_delta.core.storage.log_store import LogStore
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
        row_ids: Where rows carry their ids: requests the last columns ``ROW_ID`` and ``ROW_COMMIT_VERSION``.

    Raises:
        InvalidPredicateError: The predicate cannot be decided exactly here.
        SchemaMismatchError: A column is not in the table.
        PathOutsideTableError: A file lies outside of the table.
    """
    wanted = schema if columns is None else _selected(schema, columns, store.table_uri)
    exact = None if predicate is None else to_arrow_expression(predicate, table=store.table_uri)
    read = wanted if predicate is None else _with_columns(wanted, schema, referenced_columns(predicate))
    target = arrow_schema(wanted)
    names = target.names
    if row_ids is not None:
        read = StructType((*read.fields, *row_ids.fields))
        target = pa.schema([*target, (ROW_ID, pa.int64()), (ROW_COMMIT_VERSION, pa.int64())])

    locate = FileLocator.from_store(store)
    locate.check(files["path"])

    def batches() -> Iterator[pa.RecordBatch]:
        rows = FileRows(
            locate,
            read,
            partition_columns,
            table=store.table_uri,
            by_id=by_id,
            with_row_index=row_ids is not None,
            use_threads=True,
        )
        for path, values, descriptor, base_row_id, version in _files(files):
            for batch in rows.of(path, values, hidden_by=descriptor):
                found = batch if exact is None else batch.filter(exact)
                if row_ids is None:
                    yield found.select(names)
                else:
                    ids = row_ids.columns(found, base_row_id, version)
                    yield pa.RecordBatch.from_arrays([*(found[name] for name in names), *ids], schema=target)

    return pa.RecordBatchReader.from_batches(target, batches())


def refuse_deletion_vectors(table_uri: str, files: pa.Table) -> None:
    """Return if no file hides rows by a deletion vector: reading such a file whole would bring deleted rows back.

    Raises:
        UnsupportedReaderFeatureError: At least one file does.
    """
    deletion_vectors = files["deletion_vector"]
    if deletion_vectors.null_count < len(deletion_vectors):
        raise UnsupportedReaderFeatureError(table=table_uri, features=(DELETION_VECTORS,))


def _files(files: pa.Table) -> Iterator[tuple[str, dict[str, str | None], dict[str, Any] | None, int | None, int | None]]:
    """``READ_COLUMNS`` of each file."""
    for batch in files.select(READ_COLUMNS).to_batches():
        for path, values, *rest in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield path, dict(values), *rest


def _selected(schema: StructType, columns: Sequence[str], table_uri: str) -> StructType:
    found = {name: schema.find(name) for name in columns}
    missing = tuple(f"{name}: the column does not exist" for name, field in found.items() if field is None)
    if missing:
        raise SchemaMismatchError(table=table_uri, differences=missing)
    return StructType(tuple(field for field in found.values() if field))


def _with_columns(wanted: StructType, schema: StructType, names: Collection[str]) -> StructType:
    return StructType(
        wanted.fields + tuple(field for field in schema.fields if field.name in names and field not in wanted.fields)
    )
