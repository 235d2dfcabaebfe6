"""Making the rows of a source those of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import DataFrame

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.core.schema.differences import schema_differences
from airflow_delta.spark.constraints.identity import NumberedRows
from airflow_delta.spark.constraints.values import completed, has_value_when_missing, refused_value
from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.jvm import in_session, is_connect
from airflow_delta.spark.schema_conversion import from_spark, to_spark
from airflow_delta.spark.session import is_case_sensitive, session_with

_SETTINGS = {"spark.sql.caseSensitive": "false"}  # otherwise a name in another case would count as missing, and become NULL


def repeated_names(schema: StructType) -> Iterator[str]:
    """One line for each name that more than one column bears, in any case."""
    for name, count in Counter(name_key(name) for name in schema.names).items():
        if count > 1:
            yield f"{name}: {count} columns of this name"


def named_by_position(frame: DataFrame, schema: StructType, *, table: str) -> DataFrame:
    """The rows, whose columns get the names of the table's, one after the other.

    Raises:
        SchemaMismatchError: The rows have more columns, or fewer.
    """
    if len(frame.columns) != len(schema.names):
        found = (
            f"the rows have {len(frame.columns)} columns, and the table has {len(schema.names)}: ({', '.join(schema.names)})"
        )
        raise SchemaMismatchError(table=table, differences=(found,))
    return frame.toDF(*schema.names)


def conform_to_schema(frame: DataFrame, schema: StructType, *, table: str, cache: RowCache) -> NumberedRows:
    """The rows with exactly the columns of the table, by name and at any depth.

    A column that they lack has the table's own value (its default, what it is generated from, its number), else NULL. A number
    that its column cannot hold fails the job that meets it. Constraints are checked by the writer. ``cache`` keeps the rows
    where they are numbered.

    Returns:
        The rows, and how far they have used up the numbers of identity columns; their commit records it (``with_marks``).

    Raises:
        SchemaMismatchError: The rows do not fit, by the rules of ``schema_differences``, or number themselves what the table
            numbers.
        TableRuleUnreadableError: The text of a default or of a generated column means nothing to Spark.
        ConstraintViolatedError: An identity column has no numbers left.
    """
    rows = from_spark(frame.schema)
    given = {field.name for field in schema.fields if rows.find(field.name) is not None}
    own = {field.name for field in schema.fields if field.name not in given and has_value_when_missing(field)}
    may_lack = StructType(tuple(replace(field, nullable=True) if field.name in own else field for field in schema.fields))
    refused = (text for field in schema.fields if field.name in given and (text := refused_value(field)) is not None)
    if differences := (*repeated_names(rows), *schema_differences(rows, may_lack, missing_as_null=True), *refused):
        raise SchemaMismatchError(table=table, differences=differences)
    if is_connect(frame.sparkSession) and is_case_sensitive(frame.sparkSession):  # they are analyzed later
        instead = "set spark.sql.caseSensitive to false in the session"
        raise SparkConnectUnsupportedError(feature="a write by a session that is case-sensitive", instead=instead)
    spark = frame.sparkSession
    named = in_session(frame, session_with(spark, _SETTINGS)).to(to_spark(all_nullable(schema)))
    numbered = completed(named, schema, given, table=table, cache=cache)
    return replace(numbered, frame=in_session(numbered.frame, spark))
