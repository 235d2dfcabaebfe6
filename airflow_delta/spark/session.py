"""What is set in a Spark session for the length of one step, and put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.spark.schema_conversion import quoted


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Run a step under these session settings; those before come back whatever happens.

    Only for settings that Spark does not take as an option of the reader or writer.
    """
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, former in before.items():
            if former is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, former)


@contextmanager
def temporary_views(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Make these rows visible to SQL under these names; views of the session that they hide come back afterwards.

    A DataFrame made from SQL inside the block keeps its meaning: Spark resolves names when it is made.
    """
    hidden = {name: spark.table(quoted(name)) for name in frames if _is_temporary_view(spark, name)}
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(quoted(name))
        yield
    finally:
        for name in frames:
            spark.catalog.dropTempView(name)
        for name, frame in hidden.items():
            frame.createOrReplaceTempView(quoted(name))


def _is_temporary_view(spark: SparkSession, name: str) -> bool:
    return spark.catalog.tableExists(quoted(name)) and spark.catalog.getTable(quoted(name)).isTemporary


def cores(spark: SparkSession) -> int:
    """How many tasks can run at once, at the moment: under dynamic allocation it says nothing about the next one."""
    return int(spark.sparkContext.defaultParallelism)


def time_zone(spark: SparkSession) -> str:
    """The zone in which the session reads times that name none."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether names that differ in case are two to the session; Delta's tables never have both."""
    return str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"


def pads_char(spark: SparkSession) -> bool:
    """Whether the session's readers pad columns of type CHAR; by default they do. Spark: ``ApplyCharTypePadding``."""
    reads, as_string = spark.conf.get("spark.sql.readSideCharPadding"), spark.conf.get("spark.sql.legacy.charVarcharAsString")
    return str(reads).lower() == "true" and str(as_string).lower() != "true"
