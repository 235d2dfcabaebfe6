"""Delta Lake statements as Airflow tasks."""

import airflow_delta.airflow_extra  # noqa: F401
from airflow_delta.core.statements import (
    UPSERT,
    AddColumns,
    AddConstraint,
    AddFeature,
    AllowNull,
    AlterStatement,
    CheckpointStatement,
    CleanUpLogStatement,
    CloneStatement,
    ClusterBy,
    CommentColumn,
    CompactLogStatement,
    ConvertStatement,
    CopyIntoStatement,
    CreateStatement,
    DeleteStatement,
    DiscardStatement,
    DropColumns,
    DropConstraint,
    DropFeature,
    DropStatement,
    Expectation,
    ExpectStatement,
    FileSource,
    HealthStatement,
    MaintenanceStatement,
    ManifestStatement,
    MatchedDelete,
    MatchedUpdate,
    MergeStatement,
    MoveColumn,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    OptimizeStatement,
    ProducedBy,
    PublishStatement,
    PythonSource,
    RenameColumn,
    ReorgStatement,
    RestoreStatement,
    SetDefault,
    SetProperties,
    SqlSource,
    StatisticsStatement,
    TableSource,
    Timestamp,
    UnsetProperties,
    UpdateStatement,
    UpgradeProtocol,
    VacuumStatement,
    Version,
    WidenColumn,
    WriteStatement,
)
from airflow_delta.operators.alter import DeltaAlterOperator
from airflow_delta.operators.checkpoint import DeltaCheckpointOperator
from airflow_delta.operators.clone import DeltaCloneOperator
from airflow_delta.operators.convert import DeltaConvertOperator
from airflow_delta.operators.copy_into import DeltaCopyIntoOperator
from airflow_delta.operators.create import DeltaCreateOperator
from airflow_delta.operators.delete import DeltaDeleteOperator
from airflow_delta.operators.delta_job import DeltaJob
from airflow_delta.operators.drop import DeltaDropOperator
from airflow_delta.operators.expect import DeltaExpectOperator
from airflow_delta.operators.health import DeltaTableHealthOperator
from airflow_delta.operators.job import DeltaJobOperator
from airflow_delta.operators.log_maintenance import DeltaCleanUpLogOperator, DeltaCompactLogOperator
from airflow_delta.operators.maintenance import DeltaMaintenanceOperator
from airflow_delta.operators.manifest import DeltaManifestOperator
from airflow_delta.operators.merge import DeltaMergeOperator
from airflow_delta.operators.new_commits import DeltaNewCommitsOperator
from airflow_delta.operators.optimize import DeltaOptimizeOperator
from airflow_delta.operators.pin import DeltaPinOperator
from airflow_delta.operators.publish import DeltaDiscardOperator, DeltaPublishOperator
from airflow_delta.operators.python import DeltaPythonOperator
from airflow_delta.operators.reorg import DeltaReorgOperator
from airflow_delta.operators.restore import DeltaRestoreOperator
from airflow_delta.operators.result import DeltaResultOperator
from airflow_delta.operators.sql import DeltaSqlOperator
from airflow_delta.operators.statements import DeltaStatementsOperator
from airflow_delta.operators.statistics import DeltaRecomputeStatisticsOperator
from airflow_delta.operators.tables import DeltaTablesOperator
from airflow_delta.operators.update import DeltaUpdateOperator
from airflow_delta.operators.vacuum import DeltaVacuumOperator
from airflow_delta.operators.write import DeltaWriteOperator

__all__ = [
    "UPSERT",
    "AddColumns",
    "AddConstraint",
    "AddFeature",
    "AllowNull",
    "AlterStatement",
    "CheckpointStatement",
    "CleanUpLogStatement",
    "CloneStatement",
    "ClusterBy",
    "CommentColumn",
    "CompactLogStatement",
    "ConvertStatement",
    "CopyIntoStatement",
    "CreateStatement",
    "DeleteStatement",
    "DeltaAlterOperator",
    "DeltaCheckpointOperator",
    "DeltaCleanUpLogOperator",
    "DeltaCloneOperator",
    "DeltaCompactLogOperator",
    "DeltaConvertOperator",
    "DeltaCopyIntoOperator",
    "DeltaCreateOperator",
    "DeltaDeleteOperator",
    "DeltaDiscardOperator",
    "DeltaDropOperator",
    "DeltaExpectOperator",
    "DeltaJob",
    "DeltaJobOperator",
    "DeltaMaintenanceOperator",
    "DeltaManifestOperator",
    "DeltaMergeOperator",
    "DeltaNewCommitsOperator",
    "DeltaOptimizeOperator",
    "DeltaPinOperator",
    "DeltaPublishOperator",
    "DeltaPythonOperator",
    "DeltaRecomputeStatisticsOperator",
    "DeltaReorgOperator",
    "DeltaRestoreOperator",
    "DeltaResultOperator",
    "DeltaSqlOperator",
    "DeltaStatementsOperator",
    "DeltaTableHealthOperator",
    "DeltaTablesOperator",
    "DeltaUpdateOperator",
    "DeltaVacuumOperator",
    "DeltaWriteOperator",
    "DiscardStatement",
    "DropColumns",
    "DropConstraint",
    "DropFeature",
    "DropStatement",
    "ExpectStatement",
    "Expectation",
    "FileSource",
    "HealthStatement",
    "MaintenanceStatement",
    "ManifestStatement",
    "MatchedDelete",
    "MatchedUpdate",
    "MergeStatement",
    "MoveColumn",
    "NotMatchedBySourceDelete",
    "NotMatchedBySourceUpdate",
    "NotMatchedInsert",
    "OptimizeStatement",
    "ProducedBy",
    "PublishStatement",
    "PythonSource",
    "RenameColumn",
    "ReorgStatement",
    "RestoreStatement",
    "SetDefault",
    "SetProperties",
    "SqlSource",
    "StatisticsStatement",
    "TableSource",
    "Timestamp",
    "UnsetProperties",
    "UpdateStatement",
    "UpgradeProtocol",
    "VacuumStatement",
    "Version",
    "WidenColumn",
    "WriteStatement",
]
