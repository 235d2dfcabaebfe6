"""What a user asks of a table: values that DAG files, job specs and Spark jobs share. Pure; no Spark, no Airflow.

One statement is one commit (or none). Every value is frozen, checked when it is made, and goes through JSON unchanged.
"""

from airflow_delta.core.statements.clauses import UPSERT, Clause, MatchedDelete, MatchedUpdate, NotMatchedInsert
from airflow_delta.core.statements.expectation import Expectation
from airflow_delta.core.statements.maintenance import CheckpointStatement, OptimizeStatement, VacuumStatement
from airflow_delta.core.statements.merge import MergeStatement
from airflow_delta.core.statements.result import OperationResult
from airflow_delta.core.statements.sources import FileSource, Source, SqlSource, TableSource
from airflow_delta.core.statements.write import WriteMode, WriteStatement

Statement = MergeStatement | WriteStatement | OptimizeStatement | VacuumStatement | CheckpointStatement

__all__ = [
    "UPSERT",
    "CheckpointStatement",
    "Clause",
    "Expectation",
    "FileSource",
    "MatchedDelete",
    "MatchedUpdate",
    "MergeStatement",
    "NotMatchedInsert",
    "OperationResult",
    "OptimizeStatement",
    "Source",
    "SqlSource",
    "Statement",
    "TableSource",
    "VacuumStatement",
    "WriteMode",
    "WriteStatement",
]
