"""Converts a Delta table's columns to Iceberg's, with the same field ids, so that both read the same data files.

Specification: https://iceberg.apache.org/spec/, "Schemas and Data Types", "Partition Specs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyiceberg import types as iceberg
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from airflow_delta.core.errors import IcebergConversionError
from airflow_delta.core.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    field_id,
    physical_name,
)
from airflow_delta.core.schema.column_mapping import assigned_ids, nested_ids
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
)

_PRIMITIVES: Final[Mapping[DataType, iceberg.IcebergType]] = {
    BYTE: iceberg.IntegerType(),
    SHORT: iceberg.IntegerType(),
    INTEGER: iceberg.IntegerType(),
    LONG: iceberg.LongType(),
    FLOAT: iceberg.FloatType(),
    DOUBLE: iceberg.DoubleType(),
    BOOLEAN: iceberg.BooleanType(),
    STRING: iceberg.StringType(),
    BINARY: iceberg.BinaryType(),
    DATE: iceberg.DateType(),
    TIMESTAMP: iceberg.TimestamptzType(),
    TIMESTAMP_NTZ: iceberg.TimestampType(),
}


def iceberg_schema(schema: StructType, *, table: str, schema_id: int = 0) -> Schema:
    """The columns by logical names, with the field ids in the data files.

    Raises:
        IcebergConversionError: A column has no id, or the same id as another; or Iceberg's format version 2 does not allow its
            type or name.
    """
    ids = assigned_ids(schema)
    try:
        columns = Schema(*(_field(field, table) for field in schema.fields), schema_id=schema_id)
        detail = "" if len(set(ids)) == len(ids) else "two of its columns have one id"
    except ValueError as error:  # for example, a column a.b beside a struct a with the field b
        detail = f"its columns cannot be those of an Iceberg table ({error})"
    if detail:
        raise IcebergConversionError(table=table, detail=detail, cure="write the rows into a new table, with names that differ")
    return columns


def partition_spec(schema: StructType, partition_columns: Sequence[str], *, table: str, spec_id: int = 0) -> PartitionSpec:
    """The partition spec: identity transforms of the columns. Raises as ``iceberg_schema``."""
    fields = [next(field for field in schema.fields if field.name == name) for name in partition_columns]
    return PartitionSpec(
        *(
            PartitionField(
                source_id=_id(field, table),
                field_id=PARTITION_FIELD_ID_START + position,
                transform=IdentityTransform(),
                name=field.name,
            )
            for position, field in enumerate(fields)
        ),
        spec_id=spec_id,
    )


def _field(field: StructField, table: str) -> iceberg.NestedField:
    comment = field.metadata.get("comment")
    return iceberg.NestedField(
        field_id=_id(field, table),
        name=field.name,
        field_type=_type(field.type, field, physical_name(field), table),
        required=not field.nullable,
        doc=comment if isinstance(comment, str) else None,
    )


def _type(data_type: DataType, field: StructField, path: str, table: str) -> iceberg.IcebergType:
    match data_type:
        case StructType(members):
            return iceberg.StructType(*(_field(member, table) for member in members))
        case ArrayType(element, contains_null):
            return iceberg.ListType(
                element_id=_nested_id(field, f"{path}.element", table),
                element_type=_type(element, field, f"{path}.element", table),
                element_required=not contains_null,
            )
        case MapType(key, value, contains_null):
            return iceberg.MapType(
                key_id=_nested_id(field, f"{path}.key", table),
                key_type=_type(key, field, f"{path}.key", table),
                value_id=_nested_id(field, f"{path}.value", table),
                value_type=_type(value, field, f"{path}.value", table),
                value_required=not contains_null,
            )
        case DecimalType(precision, scale):
            return iceberg.DecimalType(precision, scale)
        case _ if data_type in _PRIMITIVES:
            return _PRIMITIVES[data_type]
        case _:
            detail = f"the column {field.name} holds values of type {data_type}, which Iceberg's format version 2 does not have"
            raise IcebergConversionError(table=table, detail=detail, cure="leave the column out of the table")


def _id(field: StructField, table: str) -> int:
    return _known(field_id(field), field, table)


def _nested_id(field: StructField, path: str, table: str) -> int:
    return _known(nested_ids(field).get(path), field, table)


def _known(number: int | None, field: StructField, table: str) -> int:
    if number is None:
        detail = f"the column {field.name}, or what is inside of it, has no id"
        raise IcebergConversionError(table=table, detail=detail, cure="write the rows into a new table that is compatible")
    return number
