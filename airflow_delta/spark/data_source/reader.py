"""Reading ``format("delta")``: a worker of the driver lists the files, and each task reads some of them with Arrow.

No filter is taken from Spark to leave out files (``pushFilters``): Spark 4.2 keeps a reader with the filters of one query for
the next one on the same DataFrame, which would then miss rows. A test holds that.
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

if TYPE_CHECKING:  # workers import this module, and need no parser of predicates
    from airflow_delta.core.change_feed import ChangedRange
    from airflow_delta.core.snapshot.snapshot import Snapshot


@dataclass
class FilesPartition(InputPartition):  # type: ignore[misc] # PySpark is not typed here
    """The files of one task, each as JSON text, and the version that is read, which statements on the table look for."""

    files: tuple[str, ...]
    version: int


class FilesReader(DataSourceReader, ABC):  # type: ignore[misc] # as above
    """Rows that files of a table hold: all of their columns, or those that are to be read (``spark.read.schema``)."""

    def __init__(self, snapshot: Snapshot, columns: StructType, schema: spark_types.StructType) -> None:
        """Take what is read.

        Args:
            snapshot: The version.
            columns: All that its files can show.
            schema: Those that are wanted.

        Raises:
            SchemaMismatchError: There is no such column.
        """
        self._snapshot: Snapshot | None = snapshot
        self._table = TableFiles.of(snapshot)
        self._schema = schema
        places = _places(schema.names, columns.names, snapshot.table_uri)
        self._columns = StructType(tuple(columns.fields[place] for place in places))

    @abstractmethod
    def files_of(self, snapshot: Snapshot) -> pa.Table:
        """The files, by the columns that a worker needs and ``size`` (bytes)."""

    @abstractmethod
    def rows_of(self, files: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """Their rows, in a worker."""

    def partitions(self) -> Sequence[InputPartition]:
        """The files, in the tasks that share them."""
        snapshot, self._snapshot = self._snapshot, None  # what follows travels to the workers
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
        """Their rows."""
        return self._table.rows(self._columns).of_each(files)


class ChangesReader(FilesReader):
    """The change feed of a range of versions."""

    def __init__(self, last: Snapshot, covered: ChangedRange, schema: spark_types.StructType) -> None:
        """As of ``FilesReader``; ``last`` is the table at the last version covered."""
        super().__init__(last, StructType((*last.schema.fields, *CHANGE_FIELDS)), schema)
        self._covered = covered
        self._columns = self._columns.without(tuple(field.name for field in CHANGE_FIELDS))

    def files_of(self, snapshot: Snapshot) -> pa.Table:
        """The files that hold changes."""
        from airflow_delta.spark.change_feed.committed_files import committed_files  # noqa: PLC0415 - workers read no log

        return committed_files(snapshot, self._covered)

    def rows_of(self, files: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        """The changes in them."""
        return ChangeReader(table=self._table, columns=self._columns).of(files)


def _places(wanted: Collection[str], names: Sequence[str], table: str) -> list[int]:
    """Where columns of these names, in any case, stand among others.

    Raises:
        SchemaMismatchError: There is none of a name.
    """
    found = {name_key(name): place for place, name in enumerate(names)}
    if missing := [f"{name}: there is no such column" for name in wanted if name_key(name) not in found]:
        raise SchemaMismatchError(table=table, differences=tuple(missing))
    return [found[name_key(name)] for name in wanted]


def _as_shown(batch: pa.RecordBatch, shown: pa.Schema, table: str) -> pa.RecordBatch:
    """The batch as Spark wants it: the same values under its own names, those of list and map members too."""
    if batch.schema.equals(shown):
        return batch
    places = _places(shown.names, batch.schema.names, table)
    columns = [batch.column(place).cast(field.type) for place, field in zip(places, shown, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=shown)
