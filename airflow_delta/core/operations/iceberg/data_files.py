"""Converts files of Delta's log to Iceberg data files, column by column; only one chunk of files is Python objects at a time.

Specification: https://iceberg.apache.org/spec/, "Manifests", ``data_file``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from airflow_delta.core.errors import IcebergConversionError
from airflow_delta.core.log.record_counts import NUM_RECORDS
from airflow_delta.core.operations.absolute_paths import are_absolute
from airflow_delta.core.operations.iceberg.bounds import FileBounds, bounded_columns, bounds_of_files
from airflow_delta.core.operations.unneeded_files import unencoded
from airflow_delta.core.schema import StructField, StructType, physical_name
from airflow_delta.core.schema.partition_values import texts_of_key, typed_values
from airflow_delta.core.wording import counted

CHUNK: Final = 2_000
"""Files converted at once, and files in a manifest: removing a single file means rewriting its manifest."""

STATISTICS: Final = "stats"
"""The column with the statistics of files, as JSON text."""


def absolute_names(paths: pa.ChunkedArray, location: str) -> pa.ChunkedArray:
    """The files of the log by the names that Iceberg readers open: absolute, not percent-encoded."""
    plain = unencoded(paths)
    below = pc.binary_join_element_wise(f"{location}/", plain, "")
    rooted = pc.binary_join_element_wise("file://" if location.startswith("file:") else "", plain, "")
    return pc.if_else(are_absolute(paths), pc.if_else(pc.starts_with(plain, "/"), rooted, plain), below)


def check_convertible(files: pa.Table, *, table: str) -> None:
    """Return if Iceberg's format version 2, as written here, can represent all of these files (``CONVERTED_FILE``).

    Raises:
        IcebergConversionError: A file has a deletion vector, or its number of rows is unknown.
    """
    marked = pc.is_valid(files["deletion_vector"])
    if pc.any(marked, min_count=0).as_py():
        detail = f"{counted(pc.sum(marked).as_py(), 'file')} with deletion vectors, for which no Iceberg metadata is written"
        raise IcebergConversionError(
            table=table, detail=detail, cure="purge them (REORG); the commit of that converts the table"
        )
    uncounted = files.filter(pc.is_null(files[NUM_RECORDS.name]))
    if len(uncounted):
        detail = f"the statistics of {uncounted['path'][0].as_py()} lack the number of rows"
        raise IcebergConversionError(table=table, detail=detail, cure="recompute the statistics")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileConverter:
    """Converts files of one table to Iceberg data files.

    Attributes:
        location: The table's root.
        schema: The table's columns.
        partition_columns: The partition columns, in order.
        spec_id: Id of the partition spec.
    """

    location: str
    schema: StructType
    partition_columns: tuple[str, ...]
    spec_id: int

    def data_files(self, files: pa.Table) -> Iterator[DataFile]:
        """These files (``CONVERTED_FILE``) in order, with bounds if the column ``stats`` is present.

        Raises:
            InvalidPartitionValueError: A partition value is not of its column's type.
        """
        for start in range(0, len(files), CHUNK):
            yield from self._chunk(files.slice(start, CHUNK))

    def _chunk(self, files: pa.Table) -> Iterator[DataFile]:
        fields = [next(field for field in self.schema.fields if field.name == name) for name in self.partition_columns]
        partitions = [_partition_values(files, field) for field in fields]
        rows = zip(*partitions, strict=True) if partitions else iter(() for _ in range(len(files)))
        records = files[NUM_RECORDS.name].to_pylist()
        for path, count, size, partition, bounds in zip(
            absolute_names(files["path"], self.location).to_pylist(),
            records,
            files["size"].to_pylist(),
            rows,
            self._bounds(files, records),
            strict=True,
        ):
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.PARQUET,
                partition=Record(*partition),
                record_count=count,
                file_size_in_bytes=size,
                lower_bounds=bounds.lower or None,
                upper_bounds=bounds.upper or None,
                null_value_counts=bounds.nulls or None,
                value_counts=bounds.values or None,
            )
            file.spec_id = self.spec_id
            yield file

    def _bounds(self, files: pa.Table, records: list[int]) -> list[FileBounds]:
        if STATISTICS not in files.column_names:
            return [FileBounds()] * len(files)
        columns = bounded_columns(self.schema, self.partition_columns)
        return bounds_of_files(files[STATISTICS], records, self.schema, columns)


def _partition_values(files: pa.Table, field: StructField) -> list[Any]:
    """The values as Iceberg stores them: dates as days, timestamps as microseconds since the epoch."""
    values = typed_values(texts_of_key(files["partition_values"], physical_name(field)), field.type, column=field.name)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return values.to_pylist()
