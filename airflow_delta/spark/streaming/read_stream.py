"""Starts a stream of a table's rows, on versions of Spark that support it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_delta.spark.arguments import takes_only
from airflow_delta.spark.spark_features import check_stream_source
from airflow_delta.spark.statement.times import as_instant

_TIME = "startingtimestamp"


@takes_only
def read_stream(spark: SparkSession, table: str, *, read_change_feed: bool = False, **options: Any) -> DataFrame:
    """The rows of a table as a stream: first those that it has when the stream begins, then those that later commits add.

    After a restart, the stream continues after the last batch in the checkpoint.

    With ``read_change_feed`` each row is a change instead, with ``_change_type``, ``_commit_version`` and ``_commit_timestamp``
    as in ``read_changes``: the rows that the table has when the stream begins are inserts, and all changes of a later commit
    are in the same batch. The change data feed must be enabled (``delta.enableChangeDataFeed``).

    Args:
        spark: The session.
        table: URI of the table's root.
        read_change_feed: Whether to read the table's changes; the same as Delta's option ``readChangeFeed``.
        options: As of Delta's source: ``maxFilesPerTrigger`` (1000), ``maxBytesPerTrigger``, ``startingVersion`` (a number, or
            ``"latest"``), ``startingTimestamp`` (in the session's time zone if it names none), ``ignoreDeletes``,
            ``ignoreChanges``, ``skipChangeCommits``.

    Raises:
        SparkFeatureMissingError: Spark is older than 4.2.
        InvalidStatementError: An option is unknown, or its value is invalid.
        ChangeDataNotRecordedError: Changes were requested, but the change data feed is not enabled.
        TableNotFoundError: There is no table.
        UnsupportedReaderFeatureError: Spark cannot read the table here. Errors of the running stream end the query; their code
            is in the text of Spark's exception: see ``LogTail.advance``.
    """
    check_stream_source()
    from airflow_delta.spark.streaming.source import FORMAT, DeltaStreamSource, open_tail  # noqa: PLC0415 - Spark before 4.2 lacks its bases

    options |= {"readChangeFeed": True} if read_change_feed else {}
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    texts |= {
        name: as_instant(spark, text, statement="a streaming read") for name, text in texts.items() if name.lower() == _TIME
    }
    # Errors raised here keep their type; those of Spark's processes only arrive as text. The start of a new stream is not read
    # yet: for a stream that continues, that version may have been cleaned up.
    open_tail({**texts, "path": table})
    spark.dataSource.register(DeltaStreamSource)
    return spark.readStream.format(FORMAT).options(**texts).load(table)
