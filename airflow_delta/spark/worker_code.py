"""Our code in the Python workers of a server of Spark Connect, which are sent it when a plan first needs it.

Most small statements need none: to send it, and each executor to fetch it for the session, would take a tenth of a second.
Elsewhere workers have it as the driver has.
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
    """Have our code sent, by this function, before workers of the session first need it."""
    _unsent[spark] = send


def send_code(spark: SparkSession) -> None:
    """Let the session's workers have our code. Raises as the sending does, and tries it again the next time."""
    with _sending:
        if send := _unsent.get(spark):
            send(spark)
            del _unsent[spark]


def map_in_arrow(
    rows: DataFrame, worker: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """As ``DataFrame.mapInArrow``, by workers that have our code."""
    send_code(rows.sparkSession)
    return rows.mapInArrow(worker, schema)
