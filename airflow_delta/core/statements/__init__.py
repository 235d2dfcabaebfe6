"""Statements: values that DAG files, job specs and Spark jobs share. Pure data; no Spark, no Airflow.

A statement makes one commit or none; a sequence makes one for each of its statements, or none. Every statement is immutable, is
validated when it is made, and survives a round trip through JSON unchanged.
"""

from airflow_delta.core.statements.alter import (
    AddColumns,
    AddConstraint,
    AddFeature,
    AllowNull,
    AlterStatement,
    ClusterBy,
    CommentColumn,
    DropColumns,
    DropConstraint,
    DropFeature,
    MoveColumn,
    RenameColumn,
    SetDefault,
    SetProperties,
    TableChange,
    UnsetProperties,
    UpgradeProtocol,
    WidenColumn,
)
from airflow_delta.core.statements.clauses import (
    UPSERT,
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from airflow_delta.core.statements.copy_into import CopyIntoStatement
from airflow_delta.core.statements.drop import DropStatement
from airflow_delta.core.statements.expect import ExpectStatement
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.health import HealthStatement, MaintenanceStatement
from airflow_delta.core.statements.maintenance import (
    CheckpointStatement,
    CleanUpLogStatement,
    CompactLogStatement,
    ManifestStatement,
    OptimizeStatement,
    ReorgStatement,
    StatisticsStatement,
    VacuumStatement,
)
from airflow_delta.core.statements.merge import MergeStatement
from airflow_delta.core.statements.new_tables import CloneStatement, ConvertStatement, CreateMode, CreateStatement
from airflow_delta.core.statements.pin import AsOf, PinnedTable, PinStatement, ProducedBy, Timestamp, Version
from airflow_delta.core.statements.publish import DiscardStatement, PublishStatement
from airflow_delta.core.statements.restore import RestoreStatement
from airflow_delta.core.statements.result import OperationResult
from airflow_delta.core.statements.row_statements import DeleteStatement, UpdateStatement
from airflow_delta.core.statements.sequence import SequenceStatement, TableStatement
from airflow_delta.core.statements.sources import FileSource, PythonSource, Source, SqlSource, TableSource
from airflow_delta.core.statements.write import WriteMode, WriteStatement

CREATE_TABLES = (WriteStatement, CopyIntoStatement, CreateStatement, CloneStatement, ConvertStatement)
"""Statements that may create their table."""

Statement = TableStatement | PinStatement | SequenceStatement | PublishStatement | DiscardStatement | DropStatement

__all__ = [
    "CREATE_TABLES",
    "UPSERT",
    "AddColumns",
    "AddConstraint",
    "AddFeature",
    "AllowNull",
    "AlterStatement",
    "AsOf",
    "CheckpointStatement",
    "Clause",
    "CleanUpLogStatement",
    "CloneStatement",
    "ClusterBy",
    "CommentColumn",
    "CompactLogStatement",
    "ConvertStatement",
    "CopyIntoStatement",
    "CreateMode",
    "CreateStatement",
    "DeleteStatement",
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
    "OperationResult",
    "OptimizeStatement",
    "PinStatement",
    "PinnedTable",
    "ProducedBy",
    "PublishStatement",
    "PythonSource",
    "RenameColumn",
    "ReorgStatement",
    "RestoreStatement",
    "SequenceStatement",
    "SetDefault",
    "SetProperties",
    "Source",
    "SqlSource",
    "Statement",
    "StatisticsStatement",
    "TableChange",
    "TableSource",
    "TableStatement",
    "Timestamp",
    "UnsetProperties",
    "UpdateStatement",
    "UpgradeProtocol",
    "VacuumStatement",
    "Version",
    "WidenColumn",
    "WriteMode",
    "WriteStatement",
]
