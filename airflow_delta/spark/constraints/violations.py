"""The constraints of a table as conditions on the rows that violate them."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.actions import Metadata
from airflow_delta.core.schema import DecimalType, PrimitiveType, StructField, StructType, parse_schema
from airflow_delta.core.schema.char_columns import has_char
from airflow_delta.core.schema.data_types import BINARY, STRING
from airflow_delta.spark.constraints import lengths, not_null
from airflow_delta.spark.constraints.char_values import padded
from airflow_delta.spark.constraints.column_references import column_references
from airflow_delta.spark.constraints.column_rules import conditions, generation_text
from airflow_delta.spark.constraints.permitted import permitted_expression
from airflow_delta.spark.errors import TableRuleUnreadableError, first_line
from airflow_delta.spark.jvm import Py4JJavaError, analyzed
from airflow_delta.spark.schema_conversion import quoted, to_spark

_MAX_TEXT = 400


def violations(spark: SparkSession, metadata: Metadata, schema: StructType, *, table: str) -> dict[str, Column]:
    """For each constraint, by its name, the condition that is TRUE for a row that violates it.

    A CHECK constraint or invariant that is NULL is violated; a generated column may be NULL if its expression is.

    Args:
        spark: The session of the rows.
        metadata: The table's metadata.
        schema: The table's columns.
        table: URI of the table, for errors.

    Raises:
        TableRuleUnreadableError: A rule of the table is not valid Spark SQL.
        TableRuleRefusedError: A rule of the table may not be evaluated.
    """
    return not_null.violations(schema, metadata.partition_columns) | row_violations(spark, metadata, schema, table=table)


def row_text(names: Iterable[str]) -> Column:
    """The values of a row in these columns that are not NULL, as JSON; only its beginning if it is long."""
    return F.substring(F.to_json(F.struct(*map(quoted, names))), 1, _MAX_TEXT)


def example_of(broken: Iterable[Column], names: Iterable[str]) -> Column:
    """An aggregate: for the first of these conditions that is TRUE for a row, the ``row_text`` of such a row; else NULL.

    One aggregate for all constraints of a table, as an expression for each would contain every column again.
    """
    first = F.coalesce(*(F.when(condition, F.lit(at)) for at, condition in enumerate(broken)))
    found = F.struct(first.alias("constraint"), row_text(names).alias("text"))
    return F.min(F.when(first.isNotNull(), found)).getField("text")


def as_stored(rows: DataFrame, metadata: Metadata) -> DataFrame:
    """The rows as the log will record them: an empty string in a partition column becomes NULL."""
    fields = _texts_that_partition(metadata)
    kept = {field.name: F.col(quoted(field.name)) for field in fields}
    texts = {name: F.when(F.length(column) > 0, column) for name, column in kept.items()}
    return padded(rows.withColumns(texts), fields) if texts else rows


def _texts_that_partition(metadata: Metadata) -> list[StructField]:
    fields = parse_schema(metadata.schema_string).fields
    return [field for field in fields if field.name in metadata.partition_columns and field.type in (STRING, BINARY)]


def row_violations(
    spark: SparkSession, metadata: Metadata, schema: StructType, columns: StructType | None = None, *, table: str
) -> dict[str, Column]:
    """As ``violations``, without NOT NULL: the columns' lengths, generation expressions and constraints.

    Args:
        spark: The session of the rows.
        metadata: The table's metadata.
        schema: The table's columns.
        columns: The columns of the rows: constraints that also reference others are left out. All when None.
        table: URI of the table, for errors.
    """
    rules, limits = row_rules(metadata, schema), lengths.violations(schema if columns is None else columns)
    if columns is not None:
        lacking = schema.without(tuple(columns.names))
        rules = {name: text for name, text in rules.items() if not column_references([text], lacking).fields}
    if not rules:
        return limits
    nothing = spark.createDataFrame([], to_spark(schema))
    kept = {name: readable(nothing, name, text, table=table, is_condition=True) for name, text in rules.items()}
    return limits | {name: ~F.coalesce(condition, F.lit(False)) for name, condition in kept.items()}


def row_rules(metadata: Metadata, schema: StructType) -> dict[str, str]:
    """SQL that must be TRUE for every row, by name of the constraint."""
    generated = (
        (f"{field.name} GENERATED ALWAYS AS ({text})", _has_value(field, text))
        for field in schema.fields
        if (text := generation_text(field)) is not None
    )
    return {**conditions(metadata.configuration, schema), **dict(generated)}


def _has_value(field: StructField, text: str) -> str:
    """The condition that a column has the value of an expression, converted to the type of the column.

    A string is compared directly, and a nested value must already have the column's type, as Spark would cast neither. Trailing
    spaces of a CHAR are ignored.
    """
    column, value = quoted(field.name), f"(\n{text}\n)"
    if field.type == STRING and has_char(field):
        return f"rtrim({column}) <=> rtrim({value})"
    has_cast = isinstance(field.type, PrimitiveType | DecimalType) and field.type != STRING
    return f"{column} <=> CAST({value} AS {field.type})" if has_cast else f"{column} <=> {value}"


def readable(visible: DataFrame, rule: str, text: str, *, table: str, is_condition: bool = False) -> Column:
    """The text of a rule as an expression, if it may be evaluated and is valid for the columns of ``visible``.

    Raises:
        TableRuleUnreadableError: It is not valid there.
        TableRuleRefusedError: It contains something that no rule of a table needs.
    """
    try:
        expression = permitted_expression(rule, text, table=table, spark=visible.sparkSession)
        applied = analyzed((visible.where if is_condition else visible.select)(expression.column))
        expression.check_analyzed(applied, visible.columns)
    except (AnalysisException, ParseException) as error:
        raise TableRuleUnreadableError(rule=rule, detail=first_line(error)) from error
    except Py4JJavaError as error:
        if "StackOverflowError" not in str(error.java_exception):
            raise
        raise TableRuleUnreadableError(rule=rule, detail="it is nested too deeply for Spark") from error
    return expression.column
