"""Reading the rows of live files in this process."""

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
"""The columns of ``ADD_FILE`` needed to read rows."""


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
    """The rows of these files (``READ_COLUMNS``) that satisfy the predicate and are not marked deleted by a deletion vector.

    Args:
        store: The table's log store.
        files: The files to read: all live files of the table, or some of them.
        schema: The table's columns.
        partition_columns: Logical names of the partition columns.
        columns: Names of the columns to return, in this order; all when None.
        predicate: Which rows to return; all when None.
        by_id: As of ``open_data_file``.
        row_ids: Where rows carry their row ids; when given, ``ROW_ID`` and ``ROW_COMMIT_VERSION`` are appended as last columns.

    Raises:
        InvalidPredicateError: The predicate cannot be evaluated exactly here.
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
    """Return if no file has a deletion vector. A reader that ignored one would return deleted rows.

    Raises:
        UnsupportedReaderFeatureError: At least one file has one.
    """
    deletion_vectors = files["deletion_vector"]
    if deletion_vectors.null_count < len(deletion_vectors):
        raise UnsupportedReaderFeatureError(table=table_uri, features=(DELETION_VECTORS,))


def _files(files: pa.Table) -> Iterator[tuple[str, dict[str, str | None], dict[str, Any] | None, int | None, int | None]]:
    """The values of ``READ_COLUMNS``, one tuple for each file."""
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
