"""What the driver and its Python workers exchange beside the rows: small tables, and errors."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.least_versions import check_pyarrow
from airflow_delta.core.storage.storage_failures import storage_failure
from airflow_delta.spark.jvm import Py4JJavaError

_MARK = "airflow_delta error: "


def to_ipc(table: pa.Table) -> bytes:
    """The table as bytes, compressed, that a function carries to the workers; Spark broadcasts those above 1 MB."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_ipc(content: bytes) -> pa.Table:
    """The table that ``to_ipc`` wrote."""
    return pa.ipc.open_stream(content).read_all()


def with_typed_errors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker: the batches, with a typed error in a shape that survives Spark, which makes a text of it."""
    try:
        check_pyarrow()
        yield from batches
        if TaskContext.get():
            _freeze_modules()
    except Exception as error:
        typed = error if isinstance(error, DeltaError) else storage_failure(error, "the table's data files")
        if typed is None:
            raise
        raise RuntimeError(f"{_MARK}{json.dumps(typed.to_json())}") from error


@cache
def _freeze_modules() -> None:
    """Once a process, after its first task: PySpark collects garbage after each, and would pass over all modules, in 40 ms."""
    gc.freeze()


@contextmanager
def typed_worker_errors() -> Iterator[None]:
    """On the driver: raise a typed error of a worker as what it was there.

    Raises:
        DeltaError: What ``with_typed_errors`` carried.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError, RuntimeError) as error:  # the last from a worker's function in this process
        for line in str(error).splitlines():
            _, mark, text = line.partition(_MARK)
            typed = DeltaError.from_json(json.loads(text)) if mark else None
            if typed is not None:
                raise typed from error
        raise
