"""What the driver and its Python workers exchange beside the rows: small tables, errors, and the number of tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_delta.core.errors import DeltaError

_MARK = "airflow_delta error: "
_TASK_BYTES = 64 << 20
_BYTES_WORTH_A_TASK = 32 << 20
_BYTES_LIKE_AN_OPENING = 1 << 20
_MOST_ROUNDS = 4


def task_count(spark: SparkSession, files: pa.Table, *, share: float = 1.0) -> int:
    """How many tasks share these files (``size`` in bytes), never more than files.

    One for each core where little is read, as a task costs as much as reading some MiB; some for each where it is more, so that
    a slow one does not hold up the rest; and more of them where files are many or large.

    Args:
        spark: The session.
        files: What is read.
        share: The part of their bytes that is read.
    """
    cores = spark.sparkContext.defaultParallelism
    read = (pc.sum(files["size"]).as_py() or 0) * share + len(files) * _BYTES_LIKE_AN_OPENING
    rounds = min(_MOST_ROUNDS, ceil(read / (cores * _BYTES_WORTH_A_TASK)) or 1)
    return max(1, min(len(files), max(rounds * cores, int(read // _TASK_BYTES))))


def to_ipc(table: pa.Table) -> bytes:
    """The table as bytes that a closure carries to the workers; Spark broadcasts closures above 1 MB."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_ipc(content: bytes) -> pa.Table:
    """The table that ``to_ipc`` wrote."""
    return pa.ipc.open_stream(content).read_all()


def with_typed_errors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker: the batches, with a typed error in a shape that survives Spark, which makes a text of it."""
    try:
        yield from batches
    except DeltaError as error:
        raise RuntimeError(f"{_MARK}{json.dumps(error.to_json())}") from error


@contextmanager
def typed_worker_errors() -> Iterator[None]:
    """On the driver: raise a typed error of a worker as what it was there.

    Raises:
        DeltaError: What ``with_typed_errors`` carried.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        for line in str(error).splitlines():
            _, mark, text = line.partition(_MARK)
            typed = DeltaError.from_json(json.loads(text)) if mark else None
            if typed is not None:
                raise typed from error
        raise
