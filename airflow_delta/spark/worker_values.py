"""What the driver and its Python workers exchange beside the rows: small tables, errors, and the number of tasks."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.errors import DeltaError

_TASK_BYTES = 64 << 20
_TASKS_PER_CORE = 4


def task_count(spark: SparkSession, files: pa.Table) -> int:
    """How many tasks share these files (``size`` in bytes): some per core, so that a slow one does not hold up the rest, and
    more of them where files are many and large; never more than files.
    """
    by_size = (pc.sum(files["size"]).as_py() or 0) // _TASK_BYTES
    return max(1, min(len(files), max(_TASKS_PER_CORE * spark.sparkContext.defaultParallelism, by_size)))


def to_ipc(table: pa.Table) -> bytes:
    """The table as bytes that a closure carries to the workers; Spark broadcasts closures above 1 MB."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_ipc(content: bytes) -> pa.Table:
    """The table that ``to_ipc`` wrote."""
    return pa.ipc.open_stream(content).read_all()


def raise_first_error(results: pa.Table) -> None:
    """Raise the error that a worker put into the column ``error``: Spark's own way would make a text of it."""
    for text in results["error"].drop_null().slice(0, 1).to_pylist():
        raise DeltaError.from_json(json.loads(text)) or RuntimeError(text)
