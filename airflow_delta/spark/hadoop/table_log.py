"""Opens the log of a table on any filesystem; the only place where jobs select the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from airflow_delta.catalogs.managed_tables import VendedOptions, opened_through_catalog, vended_with
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.storage.ambient_options import ambient_prefixes
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.place import Place
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.storage.table_uri import scheme_of
from airflow_delta.spark.hadoop.hadoop_log_store import HADOOP_SCHEMES, HadoopLogStore
from airflow_delta.spark.io.executor_credentials import executors_ask
from airflow_delta.spark.jvm import Py4JJavaError, hadoop_configuration, hadoop_gateway


def lies_on_hadoop(uri: str) -> bool:
    """Whether only the JVM's Hadoop can access a table; local paths and object stores have their own stores."""
    return scheme_of(uri) in HADOOP_SCHEMES


def table_log(
    spark: SparkSession, uri: str, storage_options: Mapping[str, Any] | None = None, allowed_prefixes: Iterable[str] = ()
) -> DeltaLog:
    """As ``DeltaLog.for_table``, and for tables on HDFS through the session's Hadoop; nothing is read yet.

    Tables that this process knows to be catalog-managed are opened through their catalog.

    Raises:
        InvalidStatementError: The URI is blank, or names no bucket.
        UnsupportedStorageError: The filesystem has no known atomic create, or cannot be accessed at all or with these options.
        InvalidCatalogError: The table is catalog-managed, and the environment does not name its catalog.
        SparkConnectUnsupportedError: The table is on HDFS, and the session's JVM cannot be accessed.
    """

    def open_files(vended: VendedOptions | None) -> LogStore:
        return _files(spark, uri, vended_with(uri, storage_options, vended), allowed_prefixes)

    return DeltaLog(opened_through_catalog(uri, open_files, others_ask=partial(executors_ask, spark)))


def _files(
    spark: SparkSession, uri: str, storage_options: Mapping[str, Any] | None, allowed_prefixes: Iterable[str]
) -> LogStore:
    if not lies_on_hadoop(uri):
        return log_store_for(uri, storage_options, allowed_prefixes)
    if storage_options:
        detail = f"a table on Hadoop takes no storage options ({', '.join(sorted(storage_options))})"
        raise UnsupportedStorageError(uri=uri, detail=detail)
    return HadoopLogStore(spark, uri, allowed_prefixes=(*allowed_prefixes, *ambient_prefixes()))


def table_place(spark: SparkSession, uri: str) -> Place:
    """The place of a table or file; on Hadoop as its filesystem resolves it, including default names and mounts."""
    if lies_on_hadoop(uri):
        path = hadoop_gateway(spark, uri)[0].org.apache.hadoop.fs.Path(uri)
        with suppress(Py4JJavaError):
            uri = path.getFileSystem(hadoop_configuration(spark)).resolvePath(path).toString()
    return Place.from_uri(uri)
