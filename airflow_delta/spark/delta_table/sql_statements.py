"""Runs statements and questions that ``sql`` has parsed, through the same functions as all other interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.convert import convert
from airflow_delta.core.schema import without_column_mapping
from airflow_delta.core.sql_text import DescribeDetail, DescribeHistory, Question, ShowColumns, ShowProperties
from airflow_delta.core.statements import (
    AlterStatement,
    CloneStatement,
    ConvertStatement,
    CopyIntoStatement,
    CreateStatement,
    DeleteStatement,
    DropFeature,
    ManifestStatement,
    MergeStatement,
    OptimizeStatement,
    ReorgStatement,
    RestoreStatement,
    TableStatement,
    UpdateStatement,
    VacuumStatement,
    WriteMode,
    WriteStatement,
)
from airflow_delta.core.table_changes.statement_steps import new_table, partition_types, step_of
from airflow_delta.spark.constraints.verification import check_rows
from airflow_delta.spark.delta_table.answers import (
    affected_row,
    clone_row,
    detail_row,
    history_rows,
    merge_row,
    named_rows,
    optimize_row,
    property_rows,
    restore_row,
    vacuum_rows,
)
from airflow_delta.spark.delta_table.session_settings import checks_retention, grows_schemas, overwrites_partitions
from airflow_delta.spark.distributed.file_copy import SparkFileCopier
from airflow_delta.spark.distributed.vacuum import SparkVacuumExecutor
from airflow_delta.spark.dml.delete import delete
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.update import update
from airflow_delta.spark.optimize.optimize import optimize
from airflow_delta.spark.optimize.reorg import reorg
from airflow_delta.spark.session import time_zone
from airflow_delta.spark.write.copy_into import copy_into
from airflow_delta.spark.write.write import write

S = TypeVar("S")


def run_text(spark: SparkSession, open_table: Callable[[str], DeltaLog], statement: TableStatement | Question) -> DataFrame:
    """Run a statement or answer a question; the result has delta-spark's columns.

    Args:
        spark: The session.
        open_table: Opens the log of the table at a URI.
        statement: The parsed text.

    Raises:
        DeltaError: As the statement's function raises it.
    """
    return _RUNNERS[type(statement)](TextRun(spark=spark, open_table=open_table), open_table(statement.table), statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRun:
    """What statements need besides their own table.

    Attributes:
        spark: The session.
        open_table: Opens the log of another table.
    """

    spark: SparkSession
    open_table: Callable[[str], DeltaLog]


def _merge(run: TextRun, log: DeltaLog, statement: MergeStatement) -> DataFrame:
    evolves = statement.schema_evolution or grows_schemas(run.spark)
    return merge_row(run.spark, merge(run.spark, log, replace(statement, schema_evolution=evolves)))


def _delete(run: TextRun, log: DeltaLog, statement: DeleteStatement) -> DataFrame:
    return affected_row(run.spark, delete(run.spark, log, statement), "numDeletedRows")


def _update(run: TextRun, log: DeltaLog, statement: UpdateStatement) -> DataFrame:
    return affected_row(run.spark, update(run.spark, log, statement), "numUpdatedRows")


def _write(run: TextRun, log: DeltaLog, statement: WriteStatement) -> DataFrame:
    """INSERT, which requires an existing table as in Spark, and CREATE TABLE AS SELECT, which creates one."""
    if statement.mode not in (WriteMode.CREATE, WriteMode.CREATE_OR_REPLACE):
        log.snapshot()
        evolves = statement.merge_schema or grows_schemas(run.spark)
        dynamic = statement.mode is WriteMode.OVERWRITE and overwrites_partitions(run.spark)
        statement = replace(statement, merge_schema=evolves, mode=WriteMode.DYNAMIC_OVERWRITE if dynamic else statement.mode)
    write(run.spark, log, statement)
    return _nothing(run)


def _optimize(run: TextRun, log: DeltaLog, statement: OptimizeStatement) -> DataFrame:
    return optimize_row(run.spark, optimize(run.spark, log, statement))


def _reorg(run: TextRun, log: DeltaLog, statement: ReorgStatement) -> DataFrame:
    return optimize_row(run.spark, reorg(run.spark, log, statement))


def _vacuum(run: TextRun, log: DeltaLog, statement: VacuumStatement) -> DataFrame:
    done = log.vacuum(
        statement.retention_hours,
        dry_run=statement.dry_run,
        enforce_retention=checks_retention(run.spark),
        lite=statement.lite,
        inventory=statement.inventory,
        executor=SparkVacuumExecutor(run.spark),
    )
    return vacuum_rows(run.spark, log.table_uri, done)


def _restore(run: TextRun, log: DeltaLog, statement: RestoreStatement) -> DataFrame:
    return restore_row(run.spark, log.restore(statement.version, statement.timestamp))


def _generate(run: TextRun, log: DeltaLog, statement: ManifestStatement) -> DataFrame:
    del statement
    log.generate_manifests()
    return _nothing(run)


def _convert(run: TextRun, log: DeltaLog, statement: ConvertStatement) -> DataFrame:
    convert(
        log,
        partition_schema=partition_types(statement),
        infer_partitions=statement.infer_partitions,
        statistics=statement.statistics,
        properties=statement.properties,
        time_zone=time_zone(run.spark),
        origin=Origin(),
    )
    return _nothing(run)


def _create(run: TextRun, log: DeltaLog, statement: CreateStatement) -> DataFrame:
    log.create(new_table(statement), mode=statement.mode)
    return _nothing(run)


def _alter(run: TextRun, log: DeltaLog, statement: AlterStatement) -> DataFrame:
    match statement.changes:
        case (DropFeature(name, truncate_history=truncates),):
            log.drop_feature(name, truncate_history=truncates)
        case changes:
            log.alter().together(*(step_of(change, partial(check_rows, run.spark)) for change in changes))
    return _nothing(run)


def _clone(run: TextRun, log: DeltaLog, statement: CloneStatement) -> DataFrame:
    source = run.open_table(statement.source.table)
    version, time = statement.source.version_number, statement.source.timestamp
    clone = partial(source.deep_clone, copier=SparkFileCopier(run.spark)) if statement.deep else source.shallow_clone
    done = clone(log, version=version, timestamp=time, mode=statement.mode, properties=statement.properties)
    return clone_row(run.spark, done)


def _copy_into(run: TextRun, log: DeltaLog, statement: CopyIntoStatement) -> DataFrame:
    return affected_row(run.spark, copy_into(run.spark, log, statement), "numOutputRows")


def _history(run: TextRun, log: DeltaLog, question: DescribeHistory) -> DataFrame:
    return history_rows(run.spark, log.history(question.limit))


def _detail(run: TextRun, log: DeltaLog, question: DescribeDetail) -> DataFrame:
    del question
    return detail_row(run.spark, log.snapshot())


def _columns(run: TextRun, log: DeltaLog, question: ShowColumns) -> DataFrame:
    del question
    return named_rows(run.spark, "col_name", without_column_mapping(log.snapshot().schema).names)


def _properties(run: TextRun, log: DeltaLog, question: ShowProperties) -> DataFrame:
    found = log.snapshot().metadata.configuration
    if question.key is None:
        return property_rows(run.spark, dict(sorted(found.items())))
    missing = f"Table delta.`{log.table_uri}` does not have property: {question.key}"  # Spark's answer
    return property_rows(run.spark, {question.key: found.get(question.key, missing)})


def _nothing(run: TextRun) -> DataFrame:
    return run.spark.createDataFrame([], StructType([]))


def _runner(
    statement_type: type[S], function: Callable[[TextRun, DeltaLog, S], DataFrame]
) -> tuple[type, Callable[[TextRun, DeltaLog, Any], DataFrame]]:
    return statement_type, function


_RUNNERS: Mapping[type, Callable[[TextRun, DeltaLog, Any], DataFrame]] = dict(
    (
        _runner(MergeStatement, _merge),
        _runner(DeleteStatement, _delete),
        _runner(UpdateStatement, _update),
        _runner(WriteStatement, _write),
        _runner(OptimizeStatement, _optimize),
        _runner(ReorgStatement, _reorg),
        _runner(VacuumStatement, _vacuum),
        _runner(RestoreStatement, _restore),
        _runner(ManifestStatement, _generate),
        _runner(ConvertStatement, _convert),
        _runner(CreateStatement, _create),
        _runner(AlterStatement, _alter),
        _runner(CloneStatement, _clone),
        _runner(CopyIntoStatement, _copy_into),
        _runner(DescribeHistory, _history),
        _runner(DescribeDetail, _detail),
        _runner(ShowColumns, _columns),
        _runner(ShowProperties, _properties),
    )
)
