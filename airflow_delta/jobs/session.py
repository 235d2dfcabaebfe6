"""The Spark session of a job."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from airflow_delta.core.storage.ambient_cache import CACHE_VARIABLES
from airflow_delta.core.storage.ambient_options import VARIABLE

DEFAULTS = {
    # Timestamps in SQL texts mean UTC, independent of the machine's time zone.
    "spark.sql.session.timeZone": "UTC",
    # ``${env:NAME}`` in a text stays as it is; it must not be replaced by the driver's environment or settings.
    "spark.sql.variable.substitute": "false",
    # Writes need this; Spark before 4.2 takes it from this session only, not from a clone of it with other settings.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Rewrites need memory in Python workers, outside the heap; with the default overhead of 10 %, containers get killed.
    # spark.executor.pyspark.memory is no alternative: it limits address space, of which Arrow reserves far more than it uses.
    "spark.executor.memoryOverheadFactor": "0.4",
    # Jobs log their own steps; Spark's INFO level would add hundreds of lines for a small statement.
    "spark.log.level": "WARN",
    # Every call of a PySpark function would send its line of code to the JVM: a line of this package, of no use to users.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings that apply unless the connection, the operator, spark-submit or the cluster sets them."""


def job_session(application: str) -> SparkSession:
    """The job's session; ``DEFAULTS`` apply to settings that are not configured."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - pyspark-client lacks both

    SparkContext._ensure_initialized()  # noqa: SLF001 - without it, SparkConf lacks spark-submit's settings
    conf = SparkConf()
    for name, value in DEFAULTS.items():
        conf.setIfMissing(name, value)
    conf.setIfMissing("spark.app.name", application)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    for name in os.environ.keys() & {VARIABLE, *CACHE_VARIABLES}:
        # Sent with each task to the Python workers, also on other machines; unlike a setting, it is not shown anywhere.
        session.sparkContext.environment[name] = os.environ[name]
    return session
