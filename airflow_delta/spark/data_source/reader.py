"""Reads ``format("delta")``: a Python worker of the driver lists the files, and each task reads some of them with Arrow.

Filters are not pushed down to skip files (``pushFilters``): Spark 4.2 reuses a reader with the filters of one query for the
next query on the same DataFrame, which would then miss rows. A test checks this.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSourceReader, InputPartition

from airflow_delta.core.data_files.changed_rows import CHANGE_FIELDS
from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.change_feed.reader import ChangeReader
from airflow_delta.spark.io.file_tasks import described_shares
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.spark_features import arrow_schema

if TYPE_CHECKING:  # workers import this module without the predicate parser
    from airflow_delta.core.change_feed import ChangedRange
    from airflow_delta.core.snapshot.snapshot import Snapshot


@dataclass
class FilesPartition(InputPartition):  # type: ignore[misc] # PySpark is not typed here
    """The files of one task, each as JSON text, and the version that is read, which statements on the table look for."""

    files: tuple[str, ...]
    version: int


class FilesReader(DataSourceReader, ABC):  # type: ignore[misc] # as above
    """Rows in files of a table: all of their columns, or those requested by ``spark.read.schema``."""

    def __init__(self, snapshot: Snapshot, columns: StructType, schema: spark_types.StructType) -> None:
        """Store what to read.

        Args:
            snapshot: The version.
            columns: All columns available.
            schema: The columns requested.

        Raises:
            SchemaMismatchError: A requested column does not exist.
        """
        self._snapshot: Snapshot | None = snapshot
        self._table = TableFiles.of(snapshot)
        self._schema = schema
        places = _places(schema.names, columns.names, snapshot.table_uri)
        self._columns = StructType(tuple(columns.fields[place] for place in places))

    @abstractmethod
    def files_of(self, snapshot: Snapshot) -> pa.Table:
        """The files, with the columns that a worker needs, and ``size`` (bytes)."""

    @abstractmethod
    def rows_of(self, files: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """The rows of these files, in a worker."""

    def partitions(self) -> Sequence[InputPartition]:
        """The files, distributed over tasks."""
        snapshot, self._snapshot = self._snapshot, None  # not sent to the workers with the reader
        if snapshot is None:
            raise RuntimeError("the files of a reader are chosen once")
        shares = described_shares(self.files_of(snapshot)) or [[]]
        return [FilesPartition(tuple(share), snapshot.version) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the files of a task."""
        shown, files = arrow_schema(self._schema), partition.files if isinstance(partition, FilesPartition) else ()
        return (_as_shown(batch, shown, self._table.table_uri) for batch in self.rows_of(map(json.loads, files)))


class RowsReader(FilesReader):
    """The rows of a table's version."""

    def __init__(self, snapshot: Snapshot, schema: spark_types.StructType) -> None:
        """As of ``FilesReader``."""
        super().__init__(snapshot, snapshot.schema, schema)

    def files_of(self, snapshot: Snapshot) -> pa.Table:
        """The files of the version."""
        return snapshot.files(columns=("path", "partition_values", "deletion_vector", "size"))

    def rows_of(self, files: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """The rows of these files."""
        return self._table.rows(self._columns).of_each(files)


class ChangesReader(FilesReader):
    """The change data feed of a range of versions."""

    def __init__(self, last: Snapshot, covered: ChangedRange, schema: spark_types.StructType) -> None:
        """As of ``FilesReader``; ``last`` is the table at the last version covered."""
        super().__init__(last, StructType((*last.schema.fields, *CHANGE_FIELDS)), schema)
        self._covered = covered
        self._columns = self._columns.without(tuple(field.name for field in CHANGE_FIELDS))

    def files_of(self, snapshot: Snapshot) -> pa.Table:
        """The files that contain changes."""
        from airflow_delta.spark.change_feed.committed_files import committed_files  # noqa: PLC0415 - workers read no log

        return committed_files(snapshot, self._covered)

    def rows_of(self, files: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """The changes in these files."""
        return ChangeReader(table=self._table, columns=self._columns).of(files)


def _places(wanted: Collection[str], names: Sequence[str], table: str) -> list[int]:
    """Positions of the wanted columns among ``names``, ignoring case.

    Raises:
        SchemaMismatchError: A column does not exist.
    """
    found = {name_key(name): place for place, name in enumerate(names)}
    if missing := [f"{name}: there is no such column" for name in wanted if name_key(name) not in found]:
        raise SchemaMismatchError(table=table, differences=tuple(missing))
    return [found[name_key(name)] for name in wanted]


def _as_shown(batch: pa.RecordBatch, shown: pa.Schema, table: str) -> pa.RecordBatch:
    """The batch in the form that Spark expects: the same values, with its names also inside of lists and maps."""
    if batch.schema.equals(shown):
        return batch
    places = _places(shown.names, batch.schema.names, table)
    columns = [batch.column(place).cast(field.type) for place, field in zip(places, shown, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=shown)
