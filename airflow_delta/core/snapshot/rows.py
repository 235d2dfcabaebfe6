"""From live files to rows, in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa

from airflow_delta.core.data_files.reader import open_data_file
from airflow_delta.core.errors import SchemaMismatchError, UnsupportedReaderFeatureError
from airflow_delta.core.predicate import Expression, referenced_columns, to_arrow_expression
from airflow_delta.core.schema import StructType, arrow_schema
from airflow_delta.core.storage.data_filesystem import data_filesystem
from airflow_delta.core.storage.table_uri import is_relative


def read_rows(
    *,
    table_uri: str,
    files: pa.Table,
    schema: StructType,
    partition_columns: Sequence[str],
    columns: Sequence[str] | None,
    predicate: Expression | None,
) -> pa.RecordBatchReader:
    """The rows of these files (``ADD_FILE``) that the predicate selects.

    Raises:
        InvalidPredicateError: The predicate cannot be decided exactly here.
        SchemaMismatchError: A column is not in the table.
        UnsupportedReaderFeatureError: A file carries a deletion vector.
    """
    refuse_deletion_vectors(table_uri, files)
    wanted = schema if columns is None else _selected(schema, columns, table_uri)
    exact = None if predicate is None else to_arrow_expression(predicate, table=table_uri)
    read = wanted if predicate is None else _with_columns(wanted, schema, referenced_columns(predicate))
    target = arrow_schema(wanted)

    def batches() -> Iterator[pa.RecordBatch]:
        if not len(files):
            return
        filesystem, root = data_filesystem(table_uri)
        for path, values in _paths_and_values(files):
            where, absolute = (filesystem, f"{root}/{unquote(path)}") if is_relative(path) else data_filesystem(unquote(path))
            constants = {name: values.get(name) for name in partition_columns}
            for batch in open_data_file(where, absolute, read, constants, use_threads=True, table=table_uri):
                yield batch if exact is None else batch.filter(exact).select(target.names)

    return pa.RecordBatchReader.from_batches(target, batches())


def refuse_deletion_vectors(table_uri: str, files: pa.Table) -> None:
    """Return if no file hides rows by a deletion vector: reading such a file whole would bring deleted rows back.

    Raises:
        UnsupportedReaderFeatureError: At least one file does.
    """
    vectors = files["deletion_vector"]
    if vectors.null_count < len(vectors):
        raise UnsupportedReaderFeatureError(table=table_uri, features=("deletionVectors",))


def _paths_and_values(files: pa.Table) -> Iterator[tuple[str, dict[str, str | None]]]:
    for batch in files.select(["path", "partition_values"]).to_batches():
        for path, values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield path, dict(values or ())


def _selected(schema: StructType, columns: Sequence[str], table_uri: str) -> StructType:
    found = {name: schema.find(name) for name in columns}
    missing = tuple(f"{name}: there is no such column" for name, field in found.items() if field is None)
    if missing:
        raise SchemaMismatchError(table=table_uri, differences=missing)
    return StructType(tuple(field for field in found.values() if field))


def _with_columns(wanted: StructType, schema: StructType, names: Collection[str]) -> StructType:
    return StructType(wanted.fields + tuple(each for each in schema.fields if each.name in names and each not in wanted.fields))
