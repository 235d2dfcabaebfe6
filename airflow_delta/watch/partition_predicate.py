"""The condition that selects the partitions for which a sensor waits."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_delta.core.errors import InvalidPredicateError, InvalidStatementError
from airflow_delta.core.predicate import Expression, is_exact, is_partition_only, parse_predicate
from airflow_delta.core.schema import StructType


def partition_predicate(partitions: str, schema: StructType, columns: Sequence[str], *, table: str, sensor: str) -> Expression:
    """Parse a condition on partition columns, which the log alone can decide for every file.

    Args:
        partitions: The condition, as Spark SQL.
        schema: Schema of the table.
        columns: The partition columns.
        table: URI of the table, for errors.
        sensor: Name of the sensor, for errors.

    Raises:
        InvalidStatementError: The condition names a column that is not a partition column.
        InvalidPredicateError: It is not a condition on the table's columns, or only Spark could decide it: undecided files
            would count as matching, and end the wait too early.
    """
    predicate = parse_predicate(partitions, schema, table)
    if not is_partition_only(predicate, columns):
        own = f"those are {', '.join(columns)}" if columns else "the table is not partitioned"
        detail = f"partitions must name only partition columns of {table} ({own}), found {partitions!r}"
        raise InvalidStatementError(statement=sensor, detail=detail)
    if not is_exact(predicate):
        detail = "a sensor compares partition columns with literals of their type, such as DATE'2026-01-31', without Spark, "
        detail += "and something here is neither"
        raise InvalidPredicateError(table=table, predicate=partitions, detail=detail)
    return predicate
