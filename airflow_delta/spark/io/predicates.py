"""The core's predicate for a condition, under the settings of the session that runs it.

The core reads Spark SQL as a session with default settings does. Settings, or functions registered in the session, may change
the meaning of a condition: such a condition is left to Spark, row by row.
"""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from airflow_delta.core.errors import InvalidPredicateError
from airflow_delta.core.predicate import Column, Expression, Opaque, parse_predicate
from airflow_delta.core.schema import StructType
from airflow_delta.spark.io.sql_expression import sql_expression
from airflow_delta.spark.jvm import analyzed
from airflow_delta.spark.schema_conversion import to_spark
from airflow_delta.spark.session import time_zone

_SETTINGS = {
    "spark.sql.ansi.doubleQuotedIdentifiers": re.compile('"'),
    "spark.sql.parser.escapedStringLiterals": re.compile(r"\\"),
    "spark.sql.legacy.consecutiveStringLiterals.enabled": re.compile(r"''|\"\""),
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": re.compile("['\"]"),
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": re.compile(r"[\d.]e", re.IGNORECASE),
    "spark.sql.legacy.bangEqualsNot": re.compile("!"),
}
"""Settings that are off by default, with the characters whose meaning in a text they may change."""

_CALLS = re.compile(r"\b(startswith|like|tinyint|smallint|int|bigint|float|double|decimal|date|timestamp)\s*\(", re.IGNORECASE)
"""Functions that the core evaluates itself."""

_BUILT_IN = "org.apache.spark.sql.catalyst.expressions."


def predicate_of(spark: SparkSession, text: str, schema: StructType, table: str) -> Expression:
    """The predicate of a condition, as far as it has its default meaning in this session; opaque otherwise.

    Args:
        spark: The session.
        text: Spark SQL.
        schema: The table's schema.
        table: URI of the table, for errors.

    Raises:
        InvalidPredicateError: As of ``parse_predicate``.
    """
    if any(sign.search(text) and _is_on(spark, setting) for setting, sign in _SETTINGS.items()) or _calls_other(spark, text):
        return _undecided(text, schema)
    return parse_predicate(text, schema, table, time_zone=time_zone(spark))


def predicate_of_analyzed(spark: SparkSession, text: str, schema: StructType, table: str) -> Expression:
    """As ``predicate_of``, for a condition that Spark has analyzed; if the core cannot parse it, any row may satisfy it."""
    try:
        return predicate_of(spark, text, schema, table)
    except InvalidPredicateError:
        return _undecided(text, schema)


def predicate_of_rows(spark: SparkSession, text: str, schema: StructType, table: str) -> Expression:
    """As ``predicate_of_analyzed``, for a condition that Spark has not analyzed yet.

    Raises:
        InvalidPredicateError: As of ``parse_predicate``, listing the columns, if Spark rejects the condition, too.
    """
    try:
        return predicate_of(spark, text, schema, table)
    except InvalidPredicateError as error:
        try:
            analyzed(spark.createDataFrame([], to_spark(schema)).where(sql_expression(text)))
        except (AnalysisException, ParseException):
            raise error from None
        return _undecided(text, schema)


def _undecided(text: str, schema: StructType) -> Expression:
    """An opaque predicate that may depend on any column."""
    return Opaque(text, tuple(map(Column, schema.names)))


def _is_on(spark: SparkSession, setting: str) -> bool:
    return str(spark.conf.get(setting, "false")).lower() == "true"


def _calls_other(spark: SparkSession, text: str) -> bool:
    """Whether the text calls a session's own function that hides Spark's function of the same name."""
    names = {name.lower() for name in _CALLS.findall(text)}
    return not all(is_built_in(spark, name) for name in names)


def is_built_in(spark: SparkSession, function: str) -> bool:
    """Whether the name refers to Spark's own function in this session, not to one of the session's."""
    return str(spark.catalog.getFunction(function).className).startswith(_BUILT_IN)
