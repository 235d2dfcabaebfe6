"""What a table is made as, when the first write makes it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from airflow_delta.core.actions import Metadata
from airflow_delta.core.errors import SchemaMismatchError, UnsupportedWriterFeatureError
from airflow_delta.core.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    schema_json,
)
from airflow_delta.core.schema.data_types import VOID
from airflow_delta.core.statements import WriteStatement
from airflow_delta.spark.fitting import repeated_names

_KEPT_COLUMN_METADATA = ("comment", "__CHAR_VARCHAR_TYPE_STRING")
_UNKNOWN_SETTINGS = (("delta.columnmapping.mode", "name"), ("delta.columnmapping.mode", "id"), ("delta.checkpointpolicy", "v2"))
_FORBIDDEN = " ,;{}()\n\t="
"""Signs that a column's name may only hold with column mapping."""


def new_table(statement: WriteStatement, rows: StructType, *, created: int) -> Metadata:
    """Metadata of a table that holds these rows.

    All columns may be NULL, as in a table that Delta-Spark makes from a DataFrame. Of the columns' metadata only what describes
    them is kept: the rules of the table that they come from stay there.

    Args:
        statement: Names the partition columns and the properties.
        rows: The schema of the rows.
        created: Milliseconds since the epoch.

    Raises:
        SchemaMismatchError: Rows that no table can hold, or partition columns that are none.
        UnsupportedWriterFeatureError: A property that switches on what is not known here.
    """
    schema = StructType(tuple(map(_as_new, rows.fields)))
    partition_by = tuple(found.name if (found := schema.find(name)) else name for name in statement.partition_by)
    if differences := (*repeated_names(schema), *_reasons(schema, partition_by)):
        raise SchemaMismatchError(table=statement.table, differences=differences)
    if unknown := tuple(sorted(_unknown_properties(statement.properties))):
        raise UnsupportedWriterFeatureError(table=statement.table, features=unknown)
    return Metadata(
        id=str(uuid.uuid4()),
        schema_string=schema_json(schema),
        partition_columns=partition_by,
        configuration=dict(statement.properties),
        created_time=created,
    )


def _as_new(field: StructField) -> StructField:
    metadata = {key: value for key, value in field.metadata.items() if key in _KEPT_COLUMN_METADATA}
    return StructField(field.name, _nullable(field.type), True, metadata)


def _nullable(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(map(_as_new, fields)))
        case ArrayType(element):
            return ArrayType(_nullable(element))
        case MapType(key, value):
            return MapType(_nullable(key), _nullable(value))
        case _:
            return data_type


def _reasons(schema: StructType, partition_by: tuple[str, ...]) -> Iterator[str]:
    for field in schema.fields:
        if any(sign in field.name for sign in _FORBIDDEN):
            yield f"the name {field.name!r} holds one of the signs {_FORBIDDEN!r}"
        if VOID in set(_leaves(field.type)):
            yield f"{field.name} has no type: it is only ever NULL"
    for name in partition_by:
        found = schema.find(name)
        if found is None:
            yield f"the partition column {name} is not among the columns"
        elif not isinstance(found.type, PrimitiveType | DecimalType):
            yield f"{name} is {found.type}, which cannot partition a table"
    if len(set(partition_by)) < len(partition_by):
        yield "a partition column is named twice"
    if partition_by and not schema.without(partition_by).fields:
        yield "all columns are partition columns"


def _leaves(data_type: DataType) -> Iterator[DataType]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield from _leaves(field.type)
        case ArrayType(element):
            yield from _leaves(element)
        case MapType(key, value):
            yield from _leaves(key)
            yield from _leaves(value)
        case _:
            yield data_type


def _unknown_properties(properties: Mapping[str, str]) -> Iterator[str]:
    """Properties that ask for a protocol that new tables do not get here."""
    for key, value in properties.items():
        name, is_on = key.lower(), value.lower() == "true"
        if (
            name.startswith(("delta.feature.", "delta.constraints.", "delta.minreaderversion", "delta.minwriterversion"))
            or (name.startswith("delta.enable") and is_on)
            or (name, value.lower()) in _UNKNOWN_SETTINGS
        ):
            yield key
