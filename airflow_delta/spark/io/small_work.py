"""Small work over Spark Connect, which this process does itself.

A server starts Python workers for each session anew, and ends them with it: seconds, where reading and writing some files takes
milliseconds. The functions are those of the workers, and this process has the access to the table that committing takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.schema import DecimalType, StructType
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR
from airflow_delta.core.schema.collations import COLLATIONS
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)
from airflow_delta.spark.io.worker_values import typed_worker_errors
from airflow_delta.spark.jvm import is_connect

Batches: TypeAlias = Iterator[pa.RecordBatch]

MOST_BYTES = 8 << 20
"""In memory; they are sent to the server, or come from it, more than once."""

MOST_FILES = 50
"""They are read one after the other, and in an object store each takes some requests."""

_PLAIN = frozenset({BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, *INTEGERS, STRING, TIMESTAMP, TIMESTAMP_NTZ})
_NOT_PLAIN = frozenset({CHAR_VARCHAR, COLLATIONS})


class HeldRows(NamedTuple):
    """Rows that this process holds.

    Attributes:
        frame: The rows.
        rows: The same, as Arrow has them in this process.
    """

    frame: DataFrame
    rows: pa.Table


def is_done_here(spark: SparkSession, columns: StructType, size: int, *, files: int = 0) -> bool:
    """Whether work on these columns, of so many bytes in so many files, is done by this process rather than by Python workers.

    Only where Arrow and Spark mean the same by every type; other types are left to the workers, whatever their size.
    """
    return (
        is_connect(spark)
        and size <= MOST_BYTES
        and files <= MOST_FILES
        and all(
            (field.type in _PLAIN or isinstance(field.type, DecimalType)) and _NOT_PLAIN.isdisjoint(field.metadata)
            for field in columns.fields
        )
    )


def done_here(worker: Callable[[Batches], Batches], batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """What a worker makes of one partition. Raises as the worker does."""
    with typed_worker_errors():
        return pa.Table.from_batches(worker(iter(batches)), schema)


def kept_here(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table | None:
    """The batches as a table; None once they are more than this process keeps, of which sizes of files tell little."""
    kept, size = [], 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size > MOST_BYTES:
            return None
    return pa.Table.from_batches(kept, schema)
