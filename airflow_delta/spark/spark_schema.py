"""A table's schema as Spark's, both ways: the two share one JSON form."""

from __future__ import annotations

import json

from pyspark.sql import types as spark_types

from airflow_delta.core.schema import StructType, parse_schema, schema_json


def to_spark(schema: StructType) -> spark_types.StructType:
    """The schema as Spark's, column metadata included."""
    return spark_types.StructType.fromJson(json.loads(schema_json(schema)))


def from_spark(schema: spark_types.StructType) -> StructType:
    """The schema of a table that holds such rows."""
    return parse_schema(schema.json())


def quoted(name: str) -> str:
    """A name as SQL spells it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"
