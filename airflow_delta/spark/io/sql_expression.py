"""SQL expressions as columns: every text means what stands in it.

``functions.expr`` lets Spark replace ``${env:NAME}`` and ``${spark.setting}`` in a text before it is parsed
(``spark.sql.variable.substitute``, true by default): a text of a table would read the environment, and a condition with such a
literal would find nothing. Here Spark's parser runs without that step, whatever the session's settings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql.classic.column import Column as ClassicColumn


def sql_expression(text: str) -> Column:
    """The expression that an SQL text says. Raises ``ParseException`` where it is none."""
    return column_of(parsed_expression(text))


def parsed_expression(text: str) -> Any:
    """Catalyst's tree of the text, in which no name is resolved yet. Raises as ``sql_expression``."""
    return _parser(_jvm()).parseExpression(text)


def column_of(expression: Any) -> Column:
    """Catalyst's tree as PySpark's column."""
    return ClassicColumn(_expression_utils(_jvm()).column(expression))


# Py4J calls the JVM for each part of a class's name, which takes longer than to parse a condition: once for each JVM.
@lru_cache(maxsize=1)
def _parser(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()


@lru_cache(maxsize=1)
def _expression_utils(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.classic.ExpressionUtils


def _jvm() -> Any:
    context = SparkContext._active_spark_context  # noqa: SLF001 - as functions.expr finds it
    if context is None:
        raise RuntimeError("no Spark session is active")
    return context._jvm  # noqa: SLF001 - PySpark offers no other way
