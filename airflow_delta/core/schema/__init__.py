"""A table's schema: its types, its JSON in the log, its Arrow types, its partition values."""

from airflow_delta.core.schema.arrow_conversion import arrow_schema, arrow_type, struct_from_arrow, type_from_arrow
from airflow_delta.core.schema.data_types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    UnknownType,
)
from airflow_delta.core.schema.differences import is_assignable, schema_differences
from airflow_delta.core.schema.partition_values import partition_arrays, serialize, serialized_values, typed_values
from airflow_delta.core.schema.schema_json import parse_schema, schema_json

__all__ = [
    "ArrayType",
    "DataType",
    "DecimalType",
    "MapType",
    "PrimitiveType",
    "StructField",
    "StructType",
    "UnknownType",
    "arrow_schema",
    "arrow_type",
    "is_assignable",
    "parse_schema",
    "partition_arrays",
    "schema_differences",
    "schema_json",
    "serialize",
    "serialized_values",
    "struct_from_arrow",
    "type_from_arrow",
    "typed_values",
]
