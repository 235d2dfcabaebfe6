"""Which partitions a condition selects: determined from the log, or by Spark from their values if the log does not suffice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import (
    FALSE,
    TRUE,
    Column,
    Expression,
    In,
    IsNull,
    Literal,
    conjunction,
    disjunction,
    is_exact,
    referenced_columns,
)
from airflow_delta.core.predicate.expression import number_of_leaves
from airflow_delta.core.schema import StructField, StructType, partition_arrays
from airflow_delta.core.schema.data_types import LONG
from airflow_delta.core.snapshot.snapshot import Snapshot
from airflow_delta.spark.constraints.column_references import unqualified
from airflow_delta.spark.io.predicates import predicate_of
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.optimize.candidates import named_partitions, partition_codes, partition_fields
from airflow_delta.spark.schema_conversion import to_spark

_NUMBER = "__airflow_delta_partition"
_MOST_PARTITIONS = 100_000
_MOST_PARTS = 2_000
"""Most leaves of the predicate that lists the partitions for which the condition holds."""

Values = tuple[Any, ...]


def chosen_partitions(spark: SparkSession, snapshot: Snapshot, where: str | None) -> Expression | None:
    """The partitions that a condition such as ``day >= current_date() - INTERVAL 1 DAY`` selects now; None for all.

    Args:
        spark: The session, whose settings and clock decide what the log alone cannot.
        snapshot: The version.
        where: The statement's condition.

    Raises:
        InvalidPredicateError: As ``named_partitions``; or Spark would have to decide for too many partitions.
        AnalysisException: Spark cannot analyze it.
    """
    where = where and unqualified(where, snapshot.schema)
    predicate = named_partitions(snapshot, where, partial(predicate_of, spark))
    if where is None or predicate is None or is_exact(predicate):
        return predicate
    named = referenced_columns(predicate)
    fields = [field for field in partition_fields(snapshot) if field.name in named]
    values = _partition_values(snapshot, predicate, fields)
    if len(values) > _MOST_PARTITIONS:
        raise _too_many(snapshot, where)
    try:
        chosen = _of_rows(fields, _accepted(spark, values, fields, where))
    except OverflowError as error:  # a time outside of Python's years
        raise _too_many(snapshot, where) from error
    if number_of_leaves(chosen) > _MOST_PARTS:
        raise _too_many(snapshot, where)
    return chosen


def _partition_values(snapshot: Snapshot, predicate: Expression, fields: Sequence[StructField]) -> pa.Table:
    """The distinct values of these columns in the partitions that the condition may select, each with a number."""
    files = snapshot.files(predicate, ("partition_values",))
    _, first = np.unique(partition_codes(files, fields).to_numpy(), return_index=True)
    return pa.table(partition_arrays(files.take(pa.array(first, pa.int64())), fields) | {_NUMBER: np.arange(len(first))})


def _accepted(spark: SparkSession, values: pa.Table, fields: Sequence[StructField], where: str) -> set[Values]:
    """The values for which the condition holds: those of the fields, without the number."""
    if not len(values):
        return set()
    frame = spark.createDataFrame(values, to_spark(StructType((*fields, StructField(_NUMBER, LONG)))))
    numbers = frame.where(sql_expression(where)).select(_NUMBER).toArrow().column(0)
    columns = (column.to_pylist() for column in values.take(numbers).columns)
    return {row[:-1] for row in zip(*columns, strict=True)}


def _of_rows(fields: Sequence[StructField], rows: Collection[Values]) -> Expression:
    """A predicate that is TRUE for these values of the fields; values that agree in the other fields are grouped."""
    if not fields:
        return TRUE if rows else FALSE
    rests: dict[Any, set[Values]] = {}
    for value, *rest in rows:
        rests.setdefault(value, set()).add(tuple(rest))
    alike: dict[frozenset[Values], list[Any]] = {}
    for value, found in rests.items():
        alike.setdefault(frozenset(found), []).append(value)
    return disjunction(conjunction([_among(fields[0], found), _of_rows(fields[1:], rest)]) for rest, found in alike.items())


def _among(field: StructField, values: list[Any]) -> Expression:
    there = tuple(Literal(value, field.type) for value in values if value is not None)
    nothing = [IsNull(Column(field.name))] if len(there) < len(values) else []
    return disjunction([*([In(Column(field.name), there)] if there else []), *nothing])


def _too_many(snapshot: Snapshot, where: str) -> InvalidPredicateError:
    detail = (
        "only Spark can decide it, and there are too many partitions; name them by constants, such as day >= DATE'2026-01-31'"
    )
    return InvalidPredicateError(table=snapshot.table_uri, predicate=where, detail=detail)
