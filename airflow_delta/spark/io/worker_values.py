"""What the driver and its Python workers exchange in addition to rows: small tables, and errors."""

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
    """The table as compressed bytes, which a function carries to workers; Spark broadcasts functions above 1 MB."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_ipc(content: bytes) -> pa.Table:
    """The table that ``to_ipc`` wrote."""
    return pa.ipc.open_stream(content).read_all()


def with_typed_errors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker: the batches; typed errors are encoded so that they survive Spark, which converts errors to text."""
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
    """Call once per process: PySpark collects garbage after each task, which takes 40 ms if modules are not frozen."""
    gc.freeze()


@contextmanager
def typed_worker_errors() -> Iterator[None]:
    """On the driver: raise typed errors of workers with their original type.

    Raises:
        DeltaError: An error encoded by ``with_typed_errors``.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError, RuntimeError) as error:  # RuntimeError: of a function run here
        for line in str(error).splitlines():
            _, mark, text = line.partition(_MARK)
            typed = DeltaError.from_json(json.loads(text)) if mark else None
            if typed is not None:
                raise typed from error
        raise
