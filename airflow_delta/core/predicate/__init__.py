"""Predicates: parsed from Spark SQL, evaluated on files from the log's metadata, applied to rows exactly.

The SQL parser is imported on first use, so that DAG files, and tasks that only read a log, do not load it.
"""

from importlib import import_module

from airflow_delta.core.predicate.evaluate import ALL, MAYBE, NO, Verdicts, evaluate_files, filter_files
from airflow_delta.core.predicate.expression import (
    FALSE,
    TRUE,
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Opaque,
    Or,
    StartsWith,
    conjunction,
    disjunction,
    exact_part,
    is_exact,
    is_partition_only,
    partition_part,
    range_predicate,
    referenced_columns,
)
from airflow_delta.core.predicate.row_values import to_arrow_expression
from airflow_delta.core.schema import StructType

__all__ = [
    "ALL",
    "FALSE",
    "MAYBE",
    "NO",
    "TRUE",
    "And",
    "Column",
    "Comparison",
    "Expression",
    "In",
    "IsNull",
    "Literal",
    "Not",
    "Opaque",
    "Or",
    "StartsWith",
    "Verdicts",
    "conjunction",
    "disjunction",
    "evaluate_files",
    "exact_part",
    "filter_files",
    "is_exact",
    "is_partition_only",
    "named_columns",
    "parse_predicate",
    "partition_part",
    "range_predicate",
    "referenced_columns",
    "to_arrow_expression",
]


def parse_predicate(sql: str, schema: StructType, table: str, *, time_zone: str = "UTC") -> Expression:
    """The predicate in ``sql`` on rows of ``schema``; see ``parse``."""
    parsed: Expression = import_module("airflow_delta.core.predicate.parse").parse_predicate(
        sql, schema, table, time_zone=time_zone
    )
    return parsed


def named_columns(sql: str) -> frozenset[tuple[str, ...]] | None:
    """Paths of the columns that the expression names; None if unknown."""
    paths: frozenset[tuple[str, ...]] | None = import_module("airflow_delta.core.predicate.expression_columns").named_columns(
        sql
    )
    return paths
