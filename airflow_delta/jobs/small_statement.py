"""Statements about so few rows that Spark answers their queries sooner than it has made Java code for them."""

from __future__ import annotations

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import DeleteStatement, MergeStatement, Statement, TableSource, UpdateStatement
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.io.small_work import MOST_BYTES
from airflow_delta.spark.jvm import is_connect

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Measured: a MERGE of 100 rows into 10,000 takes a warm server three fifths of the time, most of it by the second setting."""


def suit_to_size(spark: SparkSession, log: DeltaLog, statement: Statement) -> None:
    """Let Spark interpret the queries of a small statement; over Spark Connect alone, where the rest takes no time.

    The session's next statement undoes it if it is not small: behind a commit nothing is asked of a server that may be lost.

    Args:
        spark: The session, which no other thread uses.
        log: Of the statement's table.
        statement: What is done next.

    Raises:
        DeltaError: A table cannot be read.
    """
    if not is_connect(spark):
        return
    if _is_small(spark, log, statement):
        for name, value in _INTERPRETED.items():
            spark.conf.set(name, value)
    elif all(spark.conf.get(name, None) == value for name, value in _INTERPRETED.items()):
        for name in _INTERPRETED:
            spark.conf.unset(name)


def _is_small(spark: SparkSession, log: DeltaLog, statement: Statement) -> bool:
    """The source's log is only read where the target is small; that of the target is kept for the statement."""
    match statement:
        case DeleteStatement() | UpdateStatement():
            return _has_few_bytes(log.snapshot())
        case MergeStatement(source=TableSource(staged=None) as source):
            return _has_few_bytes(log.snapshot()) and _has_few_bytes(
                table_log(spark, source.table).snapshot(version=source.version_number, timestamp=source.timestamp)
            )
        case _:
            return False


def _has_few_bytes(table: Snapshot) -> bool:
    return bool((pc.sum(table.files(columns=("size",))["size"]).as_py() or 0) <= MOST_BYTES)
