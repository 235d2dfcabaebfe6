"""Delta Lake statements as Airflow tasks."""

from airflow_delta.core.statements import (
    UPSERT,
    Expectation,
    FileSource,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    SqlSource,
    TableSource,
)
from airflow_delta.operators.checkpoint import DeltaCheckpointOperator
from airflow_delta.operators.job import DeltaJobOperator
from airflow_delta.operators.merge import DeltaMergeOperator
from airflow_delta.operators.optimize import DeltaOptimizeOperator
from airflow_delta.operators.sql import DeltaSqlOperator
from airflow_delta.operators.vacuum import DeltaVacuumOperator
from airflow_delta.operators.write import DeltaWriteOperator

__all__ = [
    "UPSERT",
    "DeltaCheckpointOperator",
    "DeltaJobOperator",
    "DeltaMergeOperator",
    "DeltaOptimizeOperator",
    "DeltaSqlOperator",
    "DeltaVacuumOperator",
    "DeltaWriteOperator",
    "Expectation",
    "FileSource",
    "MatchedDelete",
    "MatchedUpdate",
    "NotMatchedInsert",
    "SqlSource",
    "TableSource",
]
