"""Registers ``format("delta")`` with a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from pyspark.sql import SparkSession

from airflow_delta.spark.data_source.source import DeltaDataSource

_EXTENSIONS, _CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
_OF_THE_JAR = ("io.delta.", "org.apache.spark.sql.delta.")
"""Prefixes of the names of classes in Delta's JAR."""


def register(spark: SparkSession) -> None:
    """Let this session read and write ``format("delta")``."""
    spark.dataSource.register(DeltaDataSource)


class DeltaSessionBuilder:
    """A session builder whose sessions support ``format("delta")``. Made by ``configure_spark_with_delta_pip``."""

    def __init__(self, builder: SparkSession.Builder) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Any:
        """The other methods of Spark's builder; those that return the builder return this one."""
        found = getattr(self._builder, name)
        if not callable(found):
            return found

        @wraps(found)
        def method(*arguments: Any, **options: Any) -> Any:
            given = found(*arguments, **options)
            return self if given is self._builder else given

        return method

    def getOrCreate(self) -> SparkSession:  # noqa: N802 - as of Spark's builder
        """The session, without settings that name classes of Delta's JAR, which is not needed here."""
        return self._registered(self._builder.getOrCreate)

    def create(self) -> SparkSession:
        """A new Spark Connect session, likewise."""
        return self._registered(self._builder.create)

    def _registered(self, session: Callable[[], SparkSession]) -> SparkSession:
        given = self._builder._options  # noqa: SLF001 - a builder does not expose what it was given
        if _EXTENSIONS in given:
            extensions = [name.strip() for name in given[_EXTENSIONS].split(",")]
            self._builder.config(_EXTENSIONS, ",".join(name for name in extensions if not name.startswith(_OF_THE_JAR)))
        if _CATALOG not in given or given[_CATALOG].startswith(_OF_THE_JAR):
            self._builder.config(_CATALOG, "builtin")
        spark = session()
        register(spark)
        return spark


def configure_spark_with_delta_pip(
    spark_session_builder: SparkSession.Builder,
    extra_packages: Sequence[str] | None = None,
) -> DeltaSessionBuilder:
    """The builder for a script written for delta-spark: adds no JAR, and removes settings that name the JAR's classes.

    Args:
        spark_session_builder: The script's own builder.
        extra_packages: Maven coordinates that the script needs in addition to Delta.
    """
    if extra_packages:
        spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    return DeltaSessionBuilder(spark_session_builder)
