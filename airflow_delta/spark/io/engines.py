"""Which engine reads and writes data files, for scans and sinks alike.

Spark's own reader and writer are preferred: rows stay in the JVM, and columns and filters are pushed down. Python workers with
Arrow handle storage for which the JVM has no class (S3 without hadoop-aws) or no credentials: those in a table's storage
options only reach Arrow.
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
"""Filesystems that every Hadoop installation supports."""


class Engine(Enum):
    """The engine that reads or writes data files."""

    JVM = "jvm"
    ARROW = "arrow"


def is_object_store(uri: str) -> bool:
    """Whether Hadoop accesses a place through a connector, for which a rename is a copy and opening a file takes requests."""
    return scheme_of(uri) not in BUILT_IN_SCHEMES


def choose_engine(schemes: Collection[str], *, known: Collection[str], has_options: bool) -> Engine:
    """The engine for files on these filesystems.

    Args:
        schemes: Schemes of the filesystems, as Hadoop names them.
        known: Those for which the session's Hadoop has a class; built-in ones need not be included.
        has_options: Whether the table has its own storage options.
    """
    others = frozenset(schemes) - BUILT_IN_SCHEMES
    return Engine.ARROW if others and (has_options or not others <= frozenset(known)) else Engine.JVM


def engine_for(spark: SparkSession, uris: Iterable[str], storage_options: Mapping[str, Any]) -> Engine:
    """The engine for files, or for the files of tables.

    Args:
        spark: The session, whose Hadoop is examined.
        uris: Where they are, as URIs of users or of Hadoop.
        storage_options: The table's storage options.
    """
    schemes = {_hadoop_scheme(uri) for uri in uris}
    others = schemes - BUILT_IN_SCHEMES
    # With Spark Connect, it is unknown for which filesystems the server has classes.
    is_known = not storage_options and not is_connect(spark)
    known = [scheme for scheme in others if is_known and filesystem_class(spark, scheme) is not None]
    return choose_engine(schemes, known=known, has_options=bool(storage_options))


def _hadoop_scheme(uri: str) -> str:
    scheme = scheme_of(uri)
    return scheme if scheme in BUILT_IN_SCHEMES else scheme_of(hadoop_uri(uri))
