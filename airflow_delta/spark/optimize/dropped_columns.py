"""Which data files still hold columns that the table has dropped, by their footers. Workers import this module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from airflow_delta.core.data_files.conform import find_fields
from airflow_delta.core.storage.storage_failures import read_data
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.io.tasks import FOOTER_BYTES, task_count
from airflow_delta.spark.io.worker_values import typed_worker_errors, with_typed_errors
from airflow_delta.spark.session import cores

_THREADS = 8
_DRIVER_FILES = 2_000  # a footer takes about a millisecond, a Spark job with Python workers a second to start


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedColumns:
    """Compares files with the table's columns.

    Attributes:
        table: Where the files lie.
        known: The columns of the table that files hold, as ``reading_schema`` gives them.
        by_id: Whether columns that have an id are found by it.
    """

    table: TableFiles
    known: pa.Schema
    by_id: bool

    def hold_dropped(self, spark: SparkSession, paths: Sequence[str]) -> pa.BooleanArray:
        """For each of these files (as in the log) whether it holds a column, at any level, that the table does not have.

        Raises:
            CorruptDataFileError: A file is missing, or is no Parquet.
        """
        if len(paths) <= _DRIVER_FILES:
            return pa.array(self._look_into(paths), pa.bool_())
        tasks = task_count(len(paths) * FOOTER_BYTES, len(paths), cores(spark))
        frame = spark.createDataFrame(pa.table({"path": paths})).repartition(tasks)
        with typed_worker_errors():
            results = frame.mapInArrow(self, "path string, holds boolean").toArrow()
        found = dict(zip(results["path"].to_pylist(), results["holds"].to_pylist(), strict=True))
        return pa.array([found[path] for path in paths], pa.bool_())

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition of paths."""
        return with_typed_errors(
            pa.RecordBatch.from_arrays(
                [batch.column(0), pa.array(self._look_into(batch.column(0).to_pylist()), pa.bool_())], names=["path", "holds"]
            )
            for batch in batches
        )

    def _look_into(self, paths: Sequence[str]) -> list[bool]:
        locate = self.table.locate

        def holds(path: str) -> bool:
            filesystem, place = locate(path)
            table = self.table.table_uri
            stored = read_data(lambda: pq.read_schema(place, filesystem=filesystem), table=table, file=path)
            return _holds_others(stored, self.known, by_id=self.by_id)

        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(holds, paths))


def _holds_others(stored: Iterable[pa.Field], known: Iterable[pa.Field], *, by_id: bool) -> bool:
    """Whether there is a stored field, or one inside of one, that is none of the known ones."""
    fields, wanted = list(stored), list(known)
    found = find_fields(fields, wanted, by_id=by_id)
    if len({index for index in found if index is not None}) < len(fields):
        return True
    return any(
        _holds_others(one, other, by_id=by_id)
        for index, field in zip(found, wanted, strict=True)
        if index is not None
        for one, other in _structs(fields[index].type, field.type)
    )


def _structs(stored: pa.DataType, known: pa.DataType) -> Iterator[tuple[pa.StructType, pa.StructType]]:
    """The structs, in the same places inside of two types, next to the top."""
    if pa.types.is_struct(stored) and pa.types.is_struct(known):
        yield stored, known
    elif pa.types.is_map(stored) and pa.types.is_map(known):
        yield from _structs(stored.key_type, known.key_type)
        yield from _structs(stored.item_type, known.item_type)
    elif pa.types.is_list(stored) and pa.types.is_list(known):
        yield from _structs(stored.value_type, known.value_type)
