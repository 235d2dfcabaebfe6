"""Statements that need Spark. The code of each is imported when it is needed: most jobs run a single statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    Statement,
    UpdateStatement,
    WriteStatement,
)

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class SparkRunner(Protocol[S_contra]):
    """Runs the statements of one type, each with at most one commit. Raises the statement's ``DeltaError``."""

    def __call__(
        self, spark: SparkSession, log: DeltaLog, statement: S_contra, /, *, origin: Origin, start_version: int | None
    ) -> OperationResult:
        """Run the statement."""
        ...


def spark_runner(statement: Statement) -> SparkRunner[Any] | None:
    """The statement's runner; None if the statement does not need Spark."""
    load = RUNNERS.get(type(statement))
    return None if load is None else load()


def _write() -> SparkRunner[WriteStatement]:
    from airflow_delta.spark.write.write import write

    return _compacting(write)


def _copy_into() -> SparkRunner[CopyIntoStatement]:
    from airflow_delta.spark.write.copy_into import copy_into

    return _compacting(copy_into)


def _merge() -> SparkRunner[MergeStatement]:
    from airflow_delta.spark.dml.merge.merge import merge

    return _compacting(merge)


def _delete() -> SparkRunner[DeleteStatement]:
    from airflow_delta.spark.dml.delete import delete

    return _compacting(delete)


def _update() -> SparkRunner[UpdateStatement]:
    from airflow_delta.spark.dml.update import update

    return _compacting(update)


def _optimize() -> SparkRunner[OptimizeStatement]:
    from airflow_delta.spark.optimize.optimize import optimize

    return optimize


def _reorg() -> SparkRunner[ReorgStatement]:
    from airflow_delta.spark.optimize.reorg import reorg

    return reorg


def _expect() -> SparkRunner[ExpectStatement]:
    from airflow_delta.spark.statement.expect import expect

    return expect


def _compacting(run_statement: SparkRunner[S]) -> SparkRunner[S]:
    """The runner, followed by the table's auto compaction after its commit."""
    from airflow_delta.spark.optimize.auto_compaction import compacted_after

    def run_and_compact(
        spark: SparkSession, log: DeltaLog, statement: S, /, *, origin: Origin, start_version: int | None
    ) -> OperationResult:
        result = run_statement(spark, log, statement, origin=origin, start_version=start_version)
        return compacted_after(spark, log, result, origin)

    return run_and_compact


def _runner(statement_type: type[S], load: Callable[[], SparkRunner[S]]) -> tuple[type[S], Callable[[], SparkRunner[Any]]]:
    return statement_type, load


RUNNERS: Mapping[type, Callable[[], SparkRunner[Any]]] = dict(
    (
        _runner(WriteStatement, _write),
        _runner(CopyIntoStatement, _copy_into),
        _runner(MergeStatement, _merge),
        _runner(DeleteStatement, _delete),
        _runner(UpdateStatement, _update),
        _runner(OptimizeStatement, _optimize),
        _runner(ReorgStatement, _reorg),
        _runner(ExpectStatement, _expect),
    )
)
"""Functions that import the runner, by class of the statements that need Spark; the core runs all others."""
