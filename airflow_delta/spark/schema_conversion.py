"""Converts a table's schema to Spark's and back; both have the same JSON form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import types as spark_types

from airflow_delta.core.errors import UnsupportedTypeError
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
from airflow_delta.core.schema.char_columns import as_logged
from airflow_delta.core.schema.data_types import UnknownType

_EVALUATED = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""Metadata keys whose values Spark takes for SQL: its Parquet reader evaluates the second for columns missing in a file."""


def to_spark(schema: StructType) -> spark_types.StructType:
    """The schema as Spark's, with column metadata except for SQL, which Spark would evaluate on its own.

    Raises:
        UnsupportedTypeError: A type is user-defined: Spark would load the code that it names.
    """
    return spark_types.StructType.fromJson(json.loads(schema_json(_inert(schema))))


def _inert(data_type: Any) -> Any:
    """The type without anything that Spark would execute."""
    match data_type:
        case StructType(fields):
            kept = ({key: value for key, value in field.metadata.items() if key not in _EVALUATED} for field in fields)
            members = zip(fields, kept, strict=True)
            return StructType(tuple(replace(field, type=_inert(field.type), metadata=metadata) for field, metadata in members))
        case ArrayType(element):
            return replace(data_type, element_type=_inert(element))
        case MapType(key, value):
            return replace(data_type, key_type=_inert(key), value_type=_inert(value))
        case UnknownType(text):
            raise UnsupportedTypeError(type=text)
        case _:
            return data_type


def in_files(schema: StructType) -> spark_types.StructType:
    """The columns as in data files: physical names, and field ids where Spark's writer reads them."""
    return spark_types.StructType.fromJson(json.loads(schema_json(_with_parquet_ids(_inert(physical_schema(schema))))))


def _with_parquet_ids(data_type: Any) -> Any:
    match data_type:
        case StructType(fields):
            return StructType(
                tuple(replace(field, type=_with_parquet_ids(field.type), metadata=_parquet_id(field)) for field in fields)
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
    """The schema of a table for such rows; ``char`` and ``varchar`` in the form of the log."""
    text = schema.json()
    found = parse_schema(text)
    return StructType(tuple(map(as_logged, found.fields))) if "char(" in text else found


def quoted(name: str) -> str:
    """A column name as a quoted SQL identifier, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"
