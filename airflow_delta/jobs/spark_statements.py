"""Statements that need Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import (
    CopyIntoStatement,
    DeleteStatement,
    ExpectStatement,
    MergeStatement,
    OperationResult,
    OptimizeStatement,
    ReorgStatement,
    UpdateStatement,
    WriteStatement,
)
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.optimize.auto_compaction import compacted_after
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.optimize.reorg import reorg
from airflow_delta.spark.statement.expect import expect
from airflow_delta.spark.write.copy_into import copy_into
from airflow_delta.spark.write.write import write

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class SparkRunner(Protocol[S_contra]):
    """Runs the statements of one type, each as one commit or none. Raises the statement's ``DeltaError``."""

    def __call__(
        self, spark: SparkSession, log: DeltaLog, statement: S_contra, /, *, origin: Origin, start_version: int | None
    ) -> OperationResult:
        """Run the statement."""
        ...


def _compacting(run_statement: SparkRunner[S]) -> SparkRunner[S]:
    """The runner, and behind its commit the table's auto compaction."""

    def run_and_compact(
        spark: SparkSession, log: DeltaLog, statement: S, /, *, origin: Origin, start_version: int | None
    ) -> OperationResult:
        result = run_statement(spark, log, statement, origin=origin, start_version=start_version)
        return compacted_after(spark, log, result, origin)

    return run_and_compact


def _runner(statement_type: type[S], run_statement: SparkRunner[S]) -> tuple[type[S], SparkRunner[Any]]:
    return statement_type, run_statement


RUNNERS: Mapping[type, SparkRunner[Any]] = dict(
    (
        _runner(WriteStatement, _compacting(write)),
        _runner(CopyIntoStatement, _compacting(copy_into)),
        _runner(MergeStatement, _compacting(merge)),
        _runner(DeleteStatement, _compacting(delete)),
        _runner(UpdateStatement, _compacting(update)),
        _runner(OptimizeStatement, optimize),
        _runner(ReorgStatement, reorg),
        _runner(ExpectStatement, expect),
    )
)
"""The statements that need Spark; all others are the core's."""
