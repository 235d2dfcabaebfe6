"""Making the rows of a source those of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.differences import schema_differences
from airflow_delta.spark.session import session_settings
from airflow_delta.spark.spark_schema import from_spark, to_spark

_SETTINGS = {"spark.sql.caseSensitive": "false"}  # otherwise a name in another case would count as missing, and become NULL


def repeated_names(schema: StructType) -> Iterator[str]:
    """One line for each name that more than one column bears, in any case."""
    for name, count in Counter(each.casefold() for each in schema.names).items():
        if count > 1:
            yield f"{name}: {count} columns of this name"


def fitted(frame: DataFrame, schema: StructType, *, table: str) -> DataFrame:
    """The rows with exactly the columns of the table, by name and at any depth; columns that they lack are NULL.

    A number that its column cannot hold fails the job that meets it. NOT NULL is left to the writer.

    Raises:
        SchemaMismatchError: The rows do not fit, by the rules of ``schema_differences``.
    """
    rows = from_spark(frame.schema)
    if differences := (*repeated_names(rows), *schema_differences(rows, schema, missing_as_null=True)):
        raise SchemaMismatchError(table=table, differences=differences)
    with session_settings(frame.sparkSession, _SETTINGS):
        return frame.to(_nullable(to_spark(schema)))


def _nullable(data_type: Any) -> Any:
    match data_type:
        case spark_types.StructType():
            fields = (spark_types.StructField(each.name, _nullable(each.dataType), True, each.metadata) for each in data_type)
            return spark_types.StructType(list(fields))
        case spark_types.ArrayType():
            return spark_types.ArrayType(_nullable(data_type.elementType))
        case spark_types.MapType():
            return spark_types.MapType(_nullable(data_type.keyType), _nullable(data_type.valueType))
        case _:
            return data_type
