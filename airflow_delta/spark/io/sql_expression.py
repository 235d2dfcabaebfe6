"""SQL expressions as columns, without variable substitution.

``functions.expr`` lets Spark replace ``${env:NAME}`` and ``${spark.setting}`` in a text before it is parsed
(``spark.sql.variable.substitute``, true by default): an expression in a table could read the environment, and a condition with
such a literal would match nothing. Here Spark's parser is called without that step, whatever the session's settings. With Spark
Connect only the server parses: such a text is refused there while the setting is on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.jvm import active_jvm

_SUBSTITUTE = "spark.sql.variable.substitute"


def sql_expression(text: str) -> Column:
    """The expression in an SQL text.

    Raises:
        ParseException: The text is invalid; with Spark Connect raised when the expression is used.
        SparkConnectUnsupportedError: The session would substitute a part of the text.
    """
    if (jvm := active_jvm()) is not None:
        return column_of(jvm, parsed_expression(jvm, text))
    if "${" in text and str(SparkSession.active().conf.get(_SUBSTITUTE)).lower() == "true":
        instead = f"set {_SUBSTITUTE} to false in the session"
        raise SparkConnectUnsupportedError(feature="an SQL text with ${ that means these characters", instead=instead)
    return F.expr(text)


def parsed_expression(jvm: Any, text: str) -> Any:
    """The text as a Catalyst expression, with unresolved names. Raises ``ParseException``."""
    return _parser(jvm).parseExpression(text)


def column_of(jvm: Any, expression: Any) -> Column:
    """A Catalyst expression as PySpark's column."""
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - pyspark-client has none

    return ClassicColumn(_to_column(jvm)(expression))


# Py4J makes a JVM call for each part of a class name, which takes longer than parsing a condition: done once per JVM.
@lru_cache(maxsize=1)
def _parser(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()


@lru_cache(maxsize=1)
def _to_column(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.classic.ExpressionUtils.column
