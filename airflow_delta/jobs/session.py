"""The Spark session of a job."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from airflow_delta.core.storage.ambient_cache import CACHE_VARIABLES
from airflow_delta.core.storage.ambient_options import VARIABLE

DEFAULTS = {
    # Timestamps in SQL texts mean UTC, whatever the machine.
    "spark.sql.session.timeZone": "UTC",
    # ``${env:NAME}`` in a text means these characters, never the driver's environment or settings.
    "spark.sql.variable.substitute": "false",
    # What writes need, and Spark before 4.2 takes from the session alone: a copy of it would do otherwise.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Rewrites live in Python workers, outside the heap; 10 % on top of the heap (the default) gets containers killed.
    # Not spark.executor.pyspark.memory: it limits address space, which Arrow reserves far beyond what it uses.
    "spark.executor.memoryOverheadFactor": "0.4",
    # A job says itself what it does; Spark's INFO is hundreds of lines for a small statement.
    "spark.log.level": "WARN",
    # Every call of a PySpark function would send its line of Python to the JVM: it is our line, and helps no user.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings that hold unless the connection, the operator, spark-submit or the cluster says otherwise."""


def job_session(application: str) -> SparkSession:
    """The session, made with our defaults below everything that was configured."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - pyspark-client has none

    SparkContext._ensure_initialized()  # noqa: SLF001 - before it, SparkConf does not see what spark-submit was given
    conf = SparkConf()
    for name, value in DEFAULTS.items():
        conf.setIfMissing(name, value)
    conf.setIfMissing("spark.app.name", application)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    for name in os.environ.keys() & {VARIABLE, *CACHE_VARIABLES}:
        # With each task to the Python workers, where they are on other machines too; unlike a setting it is shown nowhere.
        session.sparkContext.environment[name] = os.environ[name]
    return session
