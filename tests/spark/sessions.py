"""Additional sessions of the tests' Spark."""

from pyspark.sql import SparkSession

from airflow_delta.shipping.connect import add_code
from airflow_delta.spark.jvm import is_connect

_KEPT = []
"""Open sessions. The client of 4.0 and 4.1 deadlocks if Python garbage-collects one while another one receives rows."""


def new_session(spark):
    """A session with its own settings and views, for another thread."""
    if not is_connect(spark):
        return spark.newSession()
    session = SparkSession.builder.remote(f"sc://{spark.client._builder.endpoint}").create()
    add_code(session)
    _KEPT.append(session)
    return session


def stop_sessions():
    """Stop the sessions on a server of Spark Connect, while it runs."""
    while _KEPT:
        _KEPT.pop().stop()
