"""Reading ``format("delta")``: a worker of the driver lists the files, and each task reads some of them with Arrow.

No filter is taken from Spark to leave out files (``pushFilters``): Spark 4.2 keeps a reader with the filters of one query for
the next one on the same DataFrame, which would then miss rows. A test holds that.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSourceReader, InputPartition

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.io.file_tasks import described_shares
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.spark_features import arrow_schema

if TYPE_CHECKING:  # workers import this module, and need no parser of predicates
    from airflow_delta.core.delta_log import DeltaLog
    from airflow_delta.core.snapshot.snapshot import Snapshot


@dataclass
class FilesPartition(InputPartition):  # type: ignore[misc] # PySpark is not typed here
    """The files of one task, each as JSON text, and the version that they are of."""

    files: tuple[str, ...]
    version: int


class RowsReader(DataSourceReader):  # type: ignore[misc] # as above
    """The rows of a table's version; of its columns those that are to be read (``spark.read.schema``), or all."""

    def __init__(self, snapshot: Snapshot, schema: spark_types.StructType) -> None:
        self._snapshot: Snapshot | None = snapshot
        self._table = TableFiles.of(snapshot)
        self._schema = schema
        places = _places(schema.names, snapshot.schema.names, snapshot.table_uri)
        self._columns = StructType(tuple(snapshot.schema.fields[place] for place in places))

    def partitions(self) -> Sequence[InputPartition]:
        """The files, in the tasks that share them."""
        snapshot, self._snapshot = self._snapshot, None  # what follows travels to the workers
        if snapshot is None:
            raise RuntimeError("the files of a reader are chosen once")
        files = snapshot.files(columns=("path", "partition_values", "deletion_vector", "size"))
        return [FilesPartition(tuple(share), snapshot.version) for share in described_shares(files) or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the files, in a worker."""
        rows, shown = self._table.rows(self._columns), arrow_schema(self._schema)
        files = map(json.loads, partition.files if isinstance(partition, FilesPartition) else ())
        return (_as_shown(batch, shown, self._table.table_uri) for batch in rows.of_each(files))


class ChangesReader(DataSourceReader):  # type: ignore[misc] # as above
    """The change feed of a range of versions; one task reads it."""

    def __init__(self, path: str, covered: tuple[int | str, int | str | None], schema: spark_types.StructType) -> None:
        self._path = path
        self._covered = covered
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One, without files: where no end is given, the range ends with the version that is the newest now."""
        return [FilesPartition((), self._log().snapshot().version)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes, in a worker."""
        shown = arrow_schema(self._schema)
        start, end = self._covered
        newest = partition.version if isinstance(partition, FilesPartition) else None
        for batch in self._log().changes(start, newest if end is None else end):
            yield _as_shown(batch, shown, self._path)

    def _log(self) -> DeltaLog:
        from airflow_delta.core.delta_log import DeltaLog  # noqa: PLC0415 - only this reader opens a log in a worker

        return DeltaLog.for_table(self._path)


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
