"""Finds data files that still contain columns that the table has dropped, from their footers. Workers import this module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from airflow_delta.core.data_files.conform import find_fields
from airflow_delta.core.storage.storage_failures import read_data
from airflow_delta.spark.io.footers import in_threads, look_into
from airflow_delta.spark.io.table_files import TableFiles

_HOLDS = pa.schema([("path", pa.string()), ("holds", pa.bool_())])
_HOLDS_DDL = "path string, holds boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedColumns:
    """Compares files with the table's columns.

    Attributes:
        table: The table of the files.
        known: The columns of the table that files contain, as ``reading_schema`` returns them.
        by_id: Whether columns with an id are matched by it.
    """

    table: TableFiles
    known: pa.Schema
    by_id: bool

    def hold_dropped(self, spark: SparkSession, paths: Sequence[str]) -> pa.BooleanArray:
        """For each of these files (as in the log), whether it contains a column, at any level, that the table does not have.

        Raises:
            CorruptDataFileError: A file is missing, or is not Parquet.
        """
        results = look_into(spark, paths, _HOLDS, _HOLDS_DDL, here=self, in_worker=self)
        order = pc.index_in(pa.array(paths, pa.string()), results["path"].combine_chunks())
        return results["holds"].combine_chunks().take(order)

    def __call__(self, files: pa.Table) -> Iterator[pa.RecordBatch]:
        """The result for each of these files: ``path`` and ``holds``."""
        locate, table = self.table.locate, self.table.table_uri

        def holds(path: str) -> Mapping[str, object]:
            filesystem, place = locate(path)
            stored = read_data(lambda: pq.read_schema(place, filesystem=filesystem), table=table, file=path)
            return {"holds": _holds_others(stored, self.known, by_id=self.by_id)}

        yield in_threads(holds, files, _HOLDS)


def _holds_others(stored: Iterable[pa.Field], known: Iterable[pa.Field], *, by_id: bool) -> bool:
    """Whether a stored field, at any level, matches none of the known fields."""
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
    """The pairs of structs at the same places inside of two types, closest to the top."""
    if pa.types.is_struct(stored) and pa.types.is_struct(known):
        yield stored, known
    elif pa.types.is_map(stored) and pa.types.is_map(known):
        yield from _structs(stored.key_type, known.key_type)
        yield from _structs(stored.item_type, known.item_type)
    elif pa.types.is_list(stored) and pa.types.is_list(known):
        yield from _structs(stored.value_type, known.value_type)
