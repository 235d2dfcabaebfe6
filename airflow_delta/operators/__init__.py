"""Delta Lake statements as Airflow tasks."""

import airflow_delta.airflow_extra  # noqa: F401
from airflow_delta.core.statements import (
    UPSERT,
    AddColumns,
    AddConstraint,
    AddFeature,
    AllowNull,
    ClusterBy,
    CommentColumn,
    DropColumns,
    DropConstraint,
    DropFeature,
    Expectation,
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    MoveColumn,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    ProducedBy,
    RenameColumn,
    SetDefault,
    SetProperties,
    SqlSource,
    TableSource,
    Timestamp,
    UnsetProperties,
    UpgradeProtocol,
    Version,
    WidenColumn,
)
from airflow_delta.operators.alter import DeltaAlterOperator
from airflow_delta.operators.checkpoint import DeltaCheckpointOperator
from airflow_delta.operators.clone import DeltaCloneOperator
from airflow_delta.operators.convert import DeltaConvertOperator
from airflow_delta.operators.create import DeltaCreateOperator
from airflow_delta.operators.delete import DeltaDeleteOperator
from airflow_delta.operators.delta_job import DeltaJob
from airflow_delta.operators.health import DeltaTableHealthOperator
from airflow_delta.operators.job import DeltaJobOperator
from airflow_delta.operators.log_maintenance import DeltaCleanUpLogOperator, DeltaCompactLogOperator
from airflow_delta.operators.maintenance import DeltaMaintenanceOperator
from airflow_delta.operators.manifest import DeltaManifestOperator
from airflow_delta.operators.merge import DeltaMergeOperator
from airflow_delta.operators.new_commits import DeltaNewCommitsOperator
from airflow_delta.operators.optimize import DeltaOptimizeOperator
from airflow_delta.operators.pin import DeltaPinOperator
from airflow_delta.operators.reorg import DeltaReorgOperator
from airflow_delta.operators.restore import DeltaRestoreOperator
from airflow_delta.operators.result import DeltaResultOperator
from airflow_delta.operators.sql import DeltaSqlOperator
from airflow_delta.operators.statistics import DeltaRecomputeStatisticsOperator
from airflow_delta.operators.update import DeltaUpdateOperator
from airflow_delta.operators.vacuum import DeltaVacuumOperator
from airflow_delta.operators.write import DeltaWriteOperator

__all__ = [
    "UPSERT",
    "AddColumns",
    "AddConstraint",
    "AddFeature",
    "AllowNull",
    "ClusterBy",
    "CommentColumn",
    "DeltaAlterOperator",
    "DeltaCheckpointOperator",
    "DeltaCleanUpLogOperator",
    "DeltaCloneOperator",
    "DeltaCompactLogOperator",
    "DeltaConvertOperator",
    "DeltaCreateOperator",
    "DeltaDeleteOperator",
    "DeltaJob",
    "DeltaJobOperator",
    "DeltaMaintenanceOperator",
    "DeltaManifestOperator",
    "DeltaMergeOperator",
    "DeltaNewCommitsOperator",
    "DeltaOptimizeOperator",
    "DeltaPinOperator",
    "DeltaRecomputeStatisticsOperator",
    "DeltaReorgOperator",
    "DeltaRestoreOperator",
    "DeltaResultOperator",
    "DeltaSqlOperator",
    "DeltaTableHealthOperator",
    "DeltaUpdateOperator",
    "DeltaVacuumOperator",
    "DeltaWriteOperator",
    "DropColumns",
    "DropConstraint",
    "DropFeature",
    "Expectation",
    "FileSource",
    "MatchedDelete",
    "MatchedUpdate",
    "MoveColumn",
    "NotMatchedBySourceDelete",
    "NotMatchedBySourceUpdate",
    "NotMatchedInsert",
    "ProducedBy",
    "RenameColumn",
    "SetDefault",
    "SetProperties",
    "SqlSource",
    "TableSource",
    "Timestamp",
    "UnsetProperties",
    "UpgradeProtocol",
    "Version",
    "WidenColumn",
]
