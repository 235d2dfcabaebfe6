"""What the history shows for a WRITE: Delta's operation names, parameters and metrics."""

from __future__ import annotations

from typing import Any

from airflow_delta.core.statements import WriteMode, WriteStatement
from airflow_delta.core.transaction.operation import Operation
from airflow_delta.spark.statement.staged_rows import StagedRows
from airflow_delta.spark.write.replaced_files import ReplacedFiles
from airflow_delta.spark.write.target import Target

_REPLACE, _CREATE = "CREATE OR REPLACE TABLE AS SELECT", "CREATE TABLE AS SELECT"


def operation_of(statement: WriteStatement, target: Target) -> Operation:
    """The operation, by Delta's name."""
    partition_by = list(target.metadata.partition_columns)
    is_replaced = statement.mode is WriteMode.CREATE_OR_REPLACE
    if is_replaced or target.snapshot is None:
        made = {
            "isManaged": "false",
            "partitionBy": partition_by,
            "clusterBy": list(statement.cluster_by),
            "properties": dict(target.metadata.configuration),
        }
        return Operation(name=_REPLACE if is_replaced else _CREATE, parameters=made)
    parameters: dict[str, Any] = {
        "mode": "Append" if statement.mode is WriteMode.APPEND else "Overwrite",
        "partitionBy": partition_by,
        "predicate": statement.replace_where,
        "isDynamicPartitionOverwrite": True if statement.mode is WriteMode.DYNAMIC_OVERWRITE else None,
        "canMergeSchema": True if statement.merge_schema else None,
        "canOverwriteSchema": True if statement.overwrite_schema else None,
    }
    return Operation(name="WRITE", parameters=parameters)


def metrics_of(statement: WriteStatement, staged: StagedRows, replaced: ReplacedFiles) -> dict[str, int]:
    """The metrics of the commit, by Delta's names; rows that are only kept do not count as output."""
    metrics = {"numFiles": len(staged.adds), "numOutputRows": staged.rows, "numOutputBytes": staged.size}
    return metrics if statement.mode is WriteMode.APPEND else metrics | replaced.metrics()
