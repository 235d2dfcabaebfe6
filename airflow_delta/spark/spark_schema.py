"""A table's schema as Spark's, both ways: the two share one JSON form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import types as spark_types

from airflow_delta.core.schema import (
    ArrayType,
    MapType,
    StructField,
    StructType,
    field_id,
    parse_schema,
    physical_schema,
    schema_json,
)


def to_spark(schema: StructType) -> spark_types.StructType:
    """The schema as Spark's, column metadata included."""
    return spark_types.StructType.fromJson(json.loads(schema_json(schema)))


def in_files(schema: StructType) -> spark_types.StructType:
    """The columns as data files hold them: physical names, and ids where Spark's writer looks for them."""
    return spark_types.StructType.fromJson(json.loads(schema_json(_with_parquet_ids(physical_schema(schema)))))


def _with_parquet_ids(data_type: Any) -> Any:
    match data_type:
        case StructType(fields):
            return StructType(
                tuple(replace(each, type=_with_parquet_ids(each.type), metadata=_parquet_id(each)) for each in fields)
            )
        case ArrayType(element):
            return replace(data_type, element_type=_with_parquet_ids(element))
        case MapType(key, value):
            return replace(data_type, key_type=_with_parquet_ids(key), value_type=_with_parquet_ids(value))
        case _:
            return data_type


def _parquet_id(field: StructField) -> dict[str, int]:
    number = field_id(field)
    return {} if number is None else {"parquet.field.id": number}


def from_spark(schema: spark_types.StructType) -> StructType:
    """The schema of a table that holds such rows."""
    return parse_schema(schema.json())


def quoted(name: str) -> str:
    """A name as SQL spells it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"
