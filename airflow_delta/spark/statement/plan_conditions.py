"""Converts conditions in Spark's plans, which are JVM objects, to the core's predicates."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import SparkSession

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import Expression, conjunction
from airflow_delta.core.schema import StructType
from airflow_delta.spark.constraints.column_references import without_qualifier
from airflow_delta.spark.io.predicates import predicate_of
from airflow_delta.spark.session import time_zone

_INSTANT = re.compile(r"TIMESTAMP '([^']*)'")
_CONSTANTS = ("true", "false", "null")
"""Names that Spark prints without quotes, and that mean constants if they have no qualifier."""


def members(sequence: Any) -> list[Any]:
    """The members of a Scala sequence."""
    return [sequence.apply(position) for position in range(sequence.size())]


def conjuncts(condition: Any) -> list[Any]:
    """The conditions whose AND is this one."""
    if condition.nodeName() != "And":
        return [condition]
    return [*conjuncts(condition.left()), *conjuncts(condition.right())]


def predicate_in(spark: SparkSession, conditions: Sequence[Any], schema: StructType, table: str) -> Expression:
    """The conjunction of these conditions as a predicate, as far as the core understands them.

    Args:
        spark: The session.
        conditions: Conditions that only reference columns of the table.
        schema: The table's schema.
        table: The table's URI.
    """
    found = (_parsed(spark, condition, schema, table) for condition in conditions)
    return conjunction(predicate for predicate in found if predicate is not None)


def _parsed(spark: SparkSession, condition: Any, schema: StructType, table: str) -> Expression | None:
    """A condition as the core's predicate; None if the core cannot parse it."""
    columns = members(condition.references().toSeq())
    if any(column.name().lower() in _CONSTANTS for column in columns):
        return None
    qualifiers = {tuple(members(column.qualifier())) for column in columns}
    text = condition.sql()
    for qualifier in qualifiers:
        text = without_qualifier(text, qualifier)
    if any(_is_ambiguous(instant, time_zone(spark)) for instant in _INSTANT.findall(text)):
        return None
    try:
        return predicate_of(spark, text, schema, table)
    except InvalidPredicateError:
        return None


def _is_ambiguous(instant: str, zone: str) -> bool:
    """Whether two instants have this local time, as when clocks are set back: Spark prints instants without offset."""
    try:
        local = dt.datetime.fromisoformat(instant).replace(tzinfo=ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):  # the zone is an offset, or the core cannot parse the time
        return False
    return local.utcoffset() != local.replace(fold=1).utcoffset()
