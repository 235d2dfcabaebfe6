"""The columns that a stream shows, which stay the same while it runs."""

from __future__ import annotations

from airflow_delta.core.schema import ArrayType, DataType, MapType, StructField, StructType
from airflow_delta.core.schema.column_mapping import ID_KEY, PHYSICAL_NAME_KEY

_FOUND_BY = (ID_KEY, PHYSICAL_NAME_KEY)


def stream_schema(schema: StructType) -> StructType:
    """The names and types of the columns, and how files hold them; equal for two schemas that one stream can read.

    Every column may be NULL, since later commits may allow it; comments and rules of the table are left out.
    """
    return StructType(tuple(_field(each) for each in schema.fields))


def _field(field: StructField) -> StructField:
    metadata = {key: value for key, value in field.metadata.items() if key in _FOUND_BY}
    return StructField(field.name, _nullable(field.type), True, metadata)


def _nullable(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return stream_schema(data_type)
        case ArrayType(element):
            return ArrayType(_nullable(element))
        case MapType(key, value):
            return MapType(_nullable(key), _nullable(value))
        case _:
            return data_type
