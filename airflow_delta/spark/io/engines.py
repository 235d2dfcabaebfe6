"""Which engine reads and writes data files: one decision, for scans and sinks.

Spark's own reader and writer come first: no row leaves the JVM, and columns and filters are pushed down. Python workers read
and write with Arrow what the JVM has no class for (S3 without hadoop-aws), and what it has no credentials for: those of a
table's storage options are Arrow's alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any

from pyspark.sql import SparkSession

from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.spark.io.data_paths import hadoop_uri
from airflow_delta.spark.jvm import filesystem_class, is_connect

BUILT_IN_SCHEMES = frozenset(("file", "hdfs", "viewfs"))
"""Filesystems that every Hadoop has the classes of."""


class Engine(Enum):
    """What reads or writes data files."""

    JVM = "jvm"
    ARROW = "arrow"


def is_object_store(uri: str) -> bool:
    """Whether Hadoop would reach a place by a connector, for which a rename is a copy, and opening a file some requests."""
    return scheme_of(uri) not in BUILT_IN_SCHEMES


def choose_engine(schemes: Collection[str], *, known: Collection[str], has_options: bool) -> Engine:
    """The engine for files on filesystems.

    Args:
        schemes: Of the filesystems, as Hadoop names them.
        known: Those of them that the session's Hadoop has a class for; of the built-in ones it is known.
        has_options: Whether the table has storage options of its own.
    """
    others = frozenset(schemes) - BUILT_IN_SCHEMES
    return Engine.ARROW if others and (has_options or not others <= frozenset(known)) else Engine.JVM


def engine_for(spark: SparkSession, uris: Iterable[str], storage_options: Mapping[str, Any]) -> Engine:
    """The engine for files, or the files of tables.

    Args:
        spark: The session, whose Hadoop is looked into.
        uris: Where they lie, as users or Hadoop name it.
        storage_options: The table's.
    """
    schemes = {_hadoop_scheme(uri) for uri in uris}
    others = schemes - BUILT_IN_SCHEMES
    # Over Spark Connect it cannot be known what the server has classes for.
    is_known = not storage_options and not is_connect(spark)
    known = [scheme for scheme in others if is_known and filesystem_class(spark, scheme) is not None]
    return choose_engine(schemes, known=known, has_options=bool(storage_options))


def _hadoop_scheme(uri: str) -> str:
    scheme = scheme_of(uri)
    return scheme if scheme in BUILT_IN_SCHEMES else scheme_of(hadoop_uri(uri))
