"""Parses times as users of Spark write them: if a text names no zone, the session's time zone applies."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.errors import InvalidStatementError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def milliseconds(spark: SparkSession, timestamp: str | int | None, *, statement: str) -> int | None:
    """Milliseconds since the epoch of a text such as ``2021-01-01`` or ``2021-01-01 01:01:01``; numbers stay unchanged.

    Args:
        spark: The session.
        timestamp: The text; None stays None.
        statement: Name of the statement, for the error.

    Raises:
        InvalidStatementError: Spark cannot parse the text as a time.
    """
    if not isinstance(timestamp, str):
        return timestamp
    parsed = F.unix_millis(F.try_to_timestamp(F.lit(timestamp)))
    found = spark.range(1).select(parsed.alias("found")).head()
    if found is None or found["found"] is None:
        raise InvalidStatementError(statement=statement, detail=f"{timestamp!r} is no time")
    return int(found["found"])


def as_instant(spark: SparkSession, timestamp: str, *, statement: str) -> str:
    """The text with its zone added, for readers that do not know the session's. Raises as ``milliseconds``."""
    since = milliseconds(spark, timestamp, statement=statement)
    return (_EPOCH + dt.timedelta(milliseconds=since or 0)).isoformat()
