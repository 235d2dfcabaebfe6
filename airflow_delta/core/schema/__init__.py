"""A table's schema: its types, their JSON and Arrow forms, and partition values."""

from airflow_delta.core.schema.arrow_conversion import (
    arrow_schema,
    arrow_type,
    reading_schema,
    struct_from_arrow,
    type_from_arrow,
    writing_schema,
)
from airflow_delta.core.schema.column_mapping import (
    MappingMode,
    all_fields,
    field_id,
    mapping_mode,
    physical_name,
    physical_schema,
    with_column_mapping,
    without_column_mapping,
)
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
    "MappingMode",
    "PrimitiveType",
    "StructField",
    "StructType",
    "UnknownType",
    "all_fields",
    "arrow_schema",
    "arrow_type",
    "field_id",
    "is_assignable",
    "mapping_mode",
    "parse_schema",
    "partition_arrays",
    "physical_name",
    "physical_schema",
    "reading_schema",
    "schema_differences",
    "schema_json",
    "serialize",
    "serialized_values",
    "struct_from_arrow",
    "type_from_arrow",
    "typed_values",
    "with_column_mapping",
    "without_column_mapping",
    "writing_schema",
]
