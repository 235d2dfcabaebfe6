"""Java code for queries: of statements about few rows Spark answers them sooner than it has made any."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import DeleteStatement, MergeStatement, Statement, TableSource, UpdateStatement
from airflow_delta.spark.hadoop.table_log import table_log
from airflow_delta.spark.io.small_work import MOST_BYTES

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Measured: a MERGE of 100 rows into 10,000 takes a warm server three fifths of the time, most of it by the second setting."""


class CodeGeneration:
    """Whether Spark makes Java code for the queries of a session of Spark Connect, which nothing else uses."""

    def __init__(self, spark: SparkSession, given: Collection[str]) -> None:
        """It does, or as the user says.

        Args:
            spark: The session.
            given: Names of the settings that the user has given it: these stay as they are.
        """
        self._spark = spark
        self._is_fixed = not _INTERPRETED.keys().isdisjoint(given)
        self._is_interpreted = False

    def suit(self, log: DeltaLog, statement: Statement) -> None:
        """Let Spark interpret the queries of a small statement, and make code for those of the others, before it runs.

        Behind a commit nothing is asked of a server that may be lost, so it stays as it is until the next statement.

        Args:
            log: Of the statement's table.
            statement: What is done next.

        Raises:
            DeltaError: A table cannot be read.
        """
        if self._is_fixed or (is_small := _is_small(self._spark, log, statement)) == self._is_interpreted:
            return
        for name, value in _INTERPRETED.items():
            if is_small:
                self._spark.conf.set(name, value)
            else:
                self._spark.conf.unset(name)
        self._is_interpreted = is_small


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
