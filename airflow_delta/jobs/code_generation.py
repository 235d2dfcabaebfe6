"""Spark's Java code generation: for statements on few rows, generating code takes longer than interpreting the queries."""

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
"""Measured: with these, a MERGE of 100 rows into 10,000 takes a warm server 60 % of the time, mostly due to the second."""


class CodeGeneration:
    """Switches Java code generation on or off in a Spark Connect session that only this job uses."""

    def __init__(self, spark: SparkSession, given: Collection[str]) -> None:
        """Begin with code generation on, unless the user has set it.

        Args:
            spark: The session.
            given: Names of the session's settings that the user has given; these are not changed.
        """
        self._spark = spark
        self._is_fixed = not _INTERPRETED.keys().isdisjoint(given)
        self._is_interpreted = False

    def suit(self, log: DeltaLog, statement: Statement) -> None:
        """Before a statement runs, let Spark interpret its queries if the statement is small, and generate code otherwise.

        The setting stays until the next statement: after a commit, nothing is sent to a server that may be lost.

        Args:
            log: The log of the statement's table.
            statement: The next statement.

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
    """Whether a statement reads few bytes. The source's log is only read if the target is small."""
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
