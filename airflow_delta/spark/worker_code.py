"""This package's code for the Python workers of a Spark Connect server, sent when a plan first needs it.

Most small statements do not need it: sending it, and having each executor fetch it for the session, takes a tenth of a second.
With classic Spark, workers have the code as the driver does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

_unsent: WeakKeyDictionary[SparkSession, Callable[[SparkSession], object]] = WeakKeyDictionary()
_sending = threading.Lock()


def send_when_needed(spark: SparkSession, send: Callable[[SparkSession], object]) -> None:
    """Register the function that sends the code before workers of the session first need it."""
    _unsent[spark] = send


def send_code(spark: SparkSession) -> None:
    """Send the code to the session's workers. Raises as the sending does; the next call then tries again."""
    with _sending:
        if send := _unsent.get(spark):
            send(spark)
            del _unsent[spark]


def map_in_arrow(
    rows: DataFrame, worker: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """As ``DataFrame.mapInArrow``, with workers that have this package's code."""
    send_code(rows.sparkSession)
    return rows.mapInArrow(worker, schema)
