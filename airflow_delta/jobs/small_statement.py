"""Statements about so few rows that Spark answers their queries sooner than it has made Java code for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

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


@contextmanager
def suited_to_size(spark: SparkSession, log: DeltaLog, statement: Statement) -> Iterator[None]:
    """Let Spark interpret the queries of a small statement; over Spark Connect alone, where the rest takes no time.

    Args:
        spark: The session, which no other thread uses.
        log: Of the statement's table.
        statement: What is done in the block.

    Raises:
        DeltaError: A table cannot be read.
    """
    if not (is_connect(spark) and _is_small(spark, log, statement)):
        yield
        return
    former = {name: spark.conf.get(name, None) for name in _INTERPRETED}
    for name, value in _INTERPRETED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        with suppress(Exception):  # the statement has ended, and so has the session then
            for name, value in former.items():
                spark.conf.unset(name) if value is None else spark.conf.set(name, value)


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
