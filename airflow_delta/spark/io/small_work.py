"""Small work with Spark Connect that this process does itself.

A server starts new Python workers for each session, and ends them with it, which takes seconds, while reading and writing a few
files takes milliseconds. The functions are the same as in workers, and this process can access the table, as it must to commit.
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
"""Most bytes in memory; they are sent to the server, or received from it, more than once."""

MOST_FILES = 50
"""Most files; they are read one after the other, and in an object store each takes several requests."""

_PLAIN = frozenset({BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, *INTEGERS, STRING, TIMESTAMP, TIMESTAMP_NTZ})
_NOT_PLAIN = frozenset({CHAR_VARCHAR, COLLATIONS})


class HeldRows(NamedTuple):
    """Rows that this process holds.

    Attributes:
        frame: The rows, as a DataFrame.
        rows: The same rows, as an Arrow table.
    """

    frame: DataFrame
    rows: pa.Table


def is_done_here(spark: SparkSession, columns: StructType, size: int, *, files: int = 0) -> bool:
    """Whether this process, rather than Python workers, does work on these columns of ``size`` bytes in ``files`` files.

    Only for types that Arrow and Spark treat alike; all others are left to workers, whatever their size.
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
    """The result of a worker's function for one partition. Raises as the function does."""
    with typed_worker_errors():
        return pa.Table.from_batches(worker(iter(batches)), schema)


def kept_here(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table | None:
    """The batches as a table; None if they exceed what this process keeps, which file sizes hardly show beforehand."""
    kept, size = [], 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size > MOST_BYTES:
            return None
    return pa.Table.from_batches(kept, schema)
