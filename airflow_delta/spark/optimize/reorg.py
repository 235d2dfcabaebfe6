"""REORG: rewrites files without the deleted data that they still contain; rows do not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.data_files.row_ids import RowIds
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.managed_commits import Maintenance, check_permitted
from airflow_delta.core.schema import MappingMode, StructType, reading_schema
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.core.statements import OperationResult, ReorgStatement
from airflow_delta.core.table_features.partition_columns import materialized_columns
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.core.wording import counted
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.table_files import TableFiles
from airflow_delta.spark.optimize.dropped_columns import DroppedColumns
from airflow_delta.spark.optimize.partition_choice import chosen_partitions
from airflow_delta.spark.optimize.rearrangement import commit_rearrangement, planned_metrics
from airflow_delta.spark.rewrite.rewrite import FileRewrite, Rewritten
from airflow_delta.spark.statement.outcome import earlier_result, uncommitted
from airflow_delta.spark.statement.steps import log_step, size_of
from airflow_delta.spark.supported_features import check_rows_writable

_NAME = "REORG"
_CARRIED = ("tags", "clustering_provider")
"""Columns that stay valid for a file whose rows keep their order."""


def reorg(
    spark: SparkSession,
    log: DeltaLog,
    statement: ReorgStatement,
    *,
    origin: Origin | None = None,
    start_version: int | None = None,
) -> OperationResult:
    """Rewrite each file that has deleted rows or dropped columns, in one commit that changes no data.

    Other writers may append, and change other files, meanwhile; a file that one of them changed is left out.

    Args:
        spark: The session.
        log: The table's log.
        statement: The statement.
        origin: The task run that executes the statement; a commit with its token counts as this statement's.
        start_version: Version of the table when the token was generated, after which that commit is searched.

    Raises:
        TableNotFoundError: There is no table.
        InvalidPredicateError: As ``chosen_partitions``.
        MaintenanceNotPermittedError: The table is catalog-managed, and the catalog does not permit this to clients.
    """
    origin = origin or Origin()
    earlier = earlier_result(log, origin, start_version)
    if earlier is not None:
        return earlier
    snapshot = log.refresh()
    check_rows_writable(snapshot.table_uri, snapshot.protocol, snapshot.metadata)
    files = snapshot.files(chosen_partitions(spark, snapshot, statement.where))
    has_deletion_vector = files["deletion_vector"].is_valid()
    others = files.filter(pc.invert(has_deletion_vector))
    old = _columns(snapshot).hold_dropped(spark, others["path"].to_pylist())
    inputs = pa.concat_tables([files.filter(has_deletion_vector), others.filter(old)])
    if statement.dry_run or not len(inputs):
        return uncommitted(snapshot, _NAME, planned_metrics(inputs, len(inputs)))
    check_permitted(log.store, Maintenance.DATA_LAYOUT)
    log_step("Rewriting %s (%s)", counted(len(inputs), "file"), size_of(inputs))
    groups = pa.array(np.arange(len(inputs)), pa.int32())
    with StagingArea(log.store) as staging:
        rewrite = FileRewrite(snapshot=snapshot, inputs=inputs, outputs=groups, directory=staging.name, data_change=False)
        rewritten = _carrying_over(inputs, rewrite.concatenate(spark, clock=log.clock))
        staging.keep()
        operation = Operation(
            name=_NAME,
            parameters={"predicate": [statement.where] if statement.where else [], "applyPurge": True},
            changes_data=False,
        )
        result = commit_rearrangement(
            log, snapshot, operation, inputs=inputs, groups=groups, rewritten=rewritten, origin=origin
        )
        staging.settle(unused=not result.committed or result.already_committed)
    return result


def _columns(snapshot: Snapshot) -> DroppedColumns:
    row_ids = RowIds.from_configuration(snapshot.metadata.configuration)
    stored = snapshot.schema.without(snapshot.partition_columns)
    partitions = materialized_columns(snapshot.schema, snapshot.protocol, snapshot.metadata)
    known = StructType((*stored.fields, *partitions.fields, *(row_ids.fields if row_ids else ())))
    return DroppedColumns(
        table=TableFiles.of(snapshot), known=reading_schema(known), by_id=snapshot.column_mapping is MappingMode.ID
    )


def _carrying_over(inputs: pa.Table, rewritten: Rewritten) -> Rewritten:
    adds = rewritten.adds
    for name in _CARRIED:
        adds = adds.set_column(adds.schema.get_field_index(name), adds.schema.field(name), inputs[name].take(rewritten.outputs))
    return replace(rewritten, adds=adds)
