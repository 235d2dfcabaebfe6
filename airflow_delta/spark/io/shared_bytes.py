"""Bytes that many functions of workers refer to, and that reach each worker once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import SparkSession

from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.jvm import is_connect

_CARRIED_BYTES = 1 << 20
"""As many travel within a function, as Spark sends one that is larger as a broadcast variable."""


class SharedBytes(Protocol):
    """Bytes that a function refers to: a broadcast variable, or the bytes themselves."""

    @property
    def value(self) -> bytes:
        """The bytes."""


@dataclass(frozen=True, slots=True)
class CarriedBytes:
    """Bytes that travel within the function."""

    value: bytes


def share(spark: SparkSession, content: bytes, cache: RowCache) -> SharedBytes:
    """The bytes, for functions that workers run; over Spark Connect, which has no broadcast variables, each carries them.

    Args:
        spark: The session.
        content: The bytes.
        cache: Of the statement: a broadcast variable lies in a file of the driver until the cache is released.
    """
    if is_connect(spark) or len(content) <= _CARRIED_BYTES:
        return CarriedBytes(content)
    shared = spark.sparkContext.broadcast(content)
    cache.at_end(shared.destroy)
    return shared
