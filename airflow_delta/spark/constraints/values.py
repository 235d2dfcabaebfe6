"""Values that the table supplies for columns that a row lacks: defaults, generated values, identity values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.errors import UnsupportedTypeError
from airflow_delta.core.schema import StructField, StructType, all_fields
from airflow_delta.core.schema.collations import has_collation
from airflow_delta.spark.constraints.char_values import padded
from airflow_delta.spark.constraints.column_rules import Identity, default_text, generation_text
from airflow_delta.spark.constraints.identity import NumberedRows, numbered
from airflow_delta.spark.constraints.store_assignment import named_as, spark_type, stored_value
from airflow_delta.spark.constraints.violations import readable
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.schema_conversion import from_spark, quoted, to_spark
from airflow_delta.spark.session import holds

_ANSI = {"spark.sql.ansi.enabled": "true"}


def has_value_when_missing(field: StructField) -> bool:
    """Whether rows that lack the column get a value from the table, rather than NULL."""
    return default_text(field) is not None or generation_text(field) is not None or Identity.of(field) is not None


def refused_value(field: StructField) -> str | None:
    """Why rows may not specify values in the column; None if they may.

    Spark: ``DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED``.
    """
    identity = Identity.of(field)
    if identity is None or identity.takes_values:
        return None
    return f"{field.name}: the table numbers it (GENERATED ALWAYS AS IDENTITY), so rows cannot bring values"


def completed(frame: DataFrame, schema: StructType, given: Collection[str], *, table: str, cache: RowCache) -> NumberedRows:
    """The rows with the table's own values in the columns that their source lacks.

    Args:
        frame: Rows with all columns of the table, NULL in those that the source lacks.
        schema: The table's schema.
        given: Names of the columns that the source has, as the schema spells them.
        table: URI of the table, for errors.
        cache: Keeps the rows if identity values are assigned.

    Raises:
        TableRuleUnreadableError: A default or a generation expression is not valid Spark SQL.
        ConstraintViolatedError: The range of an identity column is exhausted.
    """
    missing = [field for field in schema.fields if field.name not in given]
    defaults = {field.name: default_value(frame, field, table=table) for field in missing if default_text(field) is not None}
    frame = padded(frame.withColumns(defaults) if defaults else frame, schema.fields)
    numbers = [field for field in missing if Identity.of(field) is not None]
    rows = numbered(frame, numbers, table=table, cache=cache) if numbers else NumberedRows(frame=frame)
    generated = {field.name: None for field in missing if generation_text(field) is not None}  # may depend on identity values
    return replace(rows, frame=with_generated(rows.frame, generated, schema, table=table)) if generated else rows


def default_value(frame: DataFrame, field: StructField, *, table: str) -> Column:
    """The column's default, in the column's type; it references no column.

    Raises:
        TableRuleUnreadableError: It is not valid Spark SQL.
        TableRuleRefusedError: It may not be evaluated.
    """
    text = str(default_text(field))
    no_columns = frame.sparkSession.createDataFrame([], spark_types.StructType([]))
    return _stored(no_columns, readable(no_columns, f"{field.name} DEFAULT {text}", text, table=table), field)


def with_generated(frame: DataFrame, where: dict[str, Column | None], schema: StructType, *, table: str) -> DataFrame:
    """The rows with generated columns computed from their other columns.

    Args:
        frame: Rows with the columns to compute, and those that their expressions reference.
        where: By name of generated column, which rows get the value, while the others keep theirs; all when None.
        schema: The table's schema.
        table: URI of the table, for errors.

    Raises:
        TableRuleUnreadableError: An expression is not valid Spark SQL.
        TableRuleRefusedError: An expression may not be evaluated.
    """
    values: dict[str, Column] = {}
    for field in schema.fields:
        if field.name in where:
            text = str(generation_text(field))
            value = _stored(frame, readable(frame, f"{field.name} GENERATED ALWAYS AS ({text})", text, table=table), field)
            chosen = where[field.name]
            values[field.name] = value if chosen is None else F.when(chosen, value).otherwise(frame[quoted(field.name)])
    return padded(frame.withColumns(values), [field for field in schema.fields if field.name in values]) if values else frame


def _stored(visible: DataFrame, value: Column, field: StructField) -> Column:
    """A value of the table's own as its column stores it; one that does not fit fails the job in every session.

    Args:
        visible: Rows with the columns that the value references.
        value: The value, as the table's rule gives it.
        field: The column.
    """
    plain = of_column_type(value, field)
    if holds(visible.sparkSession, _ANSI):
        return plain  # Spark's own cast fails
    try:
        given, _ = from_spark(visible.select(value.alias("given"), plain.alias("plain")).schema).fields
    except UnsupportedTypeError:  # for example an interval, which no column can have
        return plain
    if str(given.type) == str(field.type):
        return plain
    renamed = named_as(given.type, field.type)
    value = value if renamed == given.type else value.cast(spark_type(renamed))  # fields go by position, as in Spark's cast
    return of_column_type(stored_value(value, renamed, field.type), field)


def of_column_type(value: Column, field: StructField) -> Column:
    """The value in the type of its column, with the column's collations for its strings."""
    wanted = to_spark(StructType((field,)))
    if not holds_collation(field):
        return value.cast(wanted.fields[0].dataType)
    # Every Spark reads collations in a struct field's metadata; only newer versions also have them in the type.
    return F.struct(value.alias(field.name)).cast(wanted).getField(field.name)


def holds_collation(field: StructField) -> bool:
    """Whether equal strings in the column, at any depth, may have different bytes."""
    return any(map(has_collation, all_fields(StructType((field,)))))
