"""The id of the streaming query whose batch is being written; it is stored in the query's checkpoint.

Spark Connect runs the function of ``foreachBatch`` in a Python process of the server, which serves a single query until that
ends, but does not show which one.
"""

from __future__ import annotations

import sys
from functools import cache

from pyspark.sql import SparkSession

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.spark.jvm import is_connect

_LOCAL_PROPERTY = "sql.streaming.queryId"
_WORKER = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"


def query_id(spark: SparkSession) -> str:
    """The id of the query whose batch this thread processes.

    With Spark Connect, this is the only query of the session, so that it cannot be the id of another query.

    Raises:
        InvalidStatementError: There is no query, as when a sink is called directly; or, with Spark Connect, there are several.
    """
    if is_connect(spark):
        return _id_over_connect()
    found = spark.sparkContext.getLocalProperty(_LOCAL_PROPERTY)
    if not found:
        raise _unknown("Spark gives no query id here")
    return str(found)


def _session_at_import() -> SparkSession | None:
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return SparkSession.getActiveSession() if main is not None and main.name == _WORKER else None


# Before the first batch, the process loads the function, and with it this module, in the session that started the query. From
# Spark 4.3 on, batches run in a clone of that session, which shows no queries.
_QUERY_SESSION = _session_at_import()


@cache  # per process: queries that start later do not change the answer
def _id_over_connect() -> str:
    queries = [] if _QUERY_SESSION is None else _QUERY_SESSION.streams.active
    if len(queries) > 1:
        raise _unknown(f"{len(queries)} queries run in this session, and over Spark Connect none knows its own id")
    if not queries:
        raise _unknown("Spark gives no query id here")
    return str(queries[0].id)


def _unknown(reason: str) -> InvalidStatementError:
    detail = f"{reason}: pass query_id, a name that this query alone has and keeps over restarts"
    return InvalidStatementError(statement="a streaming write", detail=detail)
