"""Parses what users write for a table: a path, ``delta.`path` ``, ``parquet.`path` ``, or a catalog name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import SparkSession

from airflow_delta.catalogs.catalog import resolve
from airflow_delta.catalogs.managed_tables import remember_entry
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.spark.errors import TableNameUnsupportedError
from airflow_delta.spark.session_catalog import catalog_of_environment

_BY_PATH = re.compile(r"\s*(?P<format>\w+)\.`(?P<path>(?:[^`]|``)+)`\s*")
_S3A_OPTIONS = {
    "fs.s3a.access.key": "key",
    "fs.s3a.secret.key": "secret",
    "fs.s3a.session.token": "token",
    "fs.s3a.endpoint": "endpoint_url",
}


def path_in(identifier: str, *, format_name: str = "delta") -> str:
    """The path in ``format.`path` ``.

    Raises:
        TableNameUnsupportedError: It is a catalog name.
    """
    found = _BY_PATH.fullmatch(identifier)
    if found is None or found["format"].lower() != format_name:
        raise TableNameUnsupportedError(name=identifier)
    return found["path"].replace("``", "`")


def path_of(spark: SparkSession, identifier: str) -> str:
    """The path in ``delta.`path` ``, or the location of the table with this name in the environment's catalog.

    A catalog-managed table is from then on opened through its catalog, wherever this process uses its path.

    Raises:
        TableNameUnsupportedError: A catalog name is given, but no catalog is configured.
        TableNameNotFoundError: The catalog has no such table. Also the other errors of ``catalogs.errors``.
    """
    catalog = None if _BY_PATH.fullmatch(identifier) else catalog_of_environment(spark)
    if catalog is None:
        return path_in(identifier)
    entry = resolve(catalog, TableName.parse(identifier))
    remember_entry(entry)
    return entry.location


def path_or_identifier(text: str) -> str:
    """The path, given as a path or as ``delta.`path` ``."""
    return path_in(text) if _BY_PATH.fullmatch(text) else text


def hadoop_options(hadoop_conf: Mapping[str, str] | None) -> dict[str, str] | None:
    """Hadoop's settings of a filesystem, converted to storage options; None if none are given.

    Raises:
        InvalidStatementError: A setting has no counterpart here. Values are never shown.
    """
    if not hadoop_conf:
        return None
    unknown = sorted(set(hadoop_conf) - _S3A_OPTIONS.keys())
    if unknown:
        known = ", ".join(_S3A_OPTIONS)
        detail = f"hadoopConf sets {', '.join(unknown)}; known are {known}, for everything else there is storage_options"
        raise InvalidStatementError(statement="forPath", detail=detail)
    return {_S3A_OPTIONS[name]: value for name, value in hadoop_conf.items()}
