"""What a table is made as, when the first write makes it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from airflow_delta.core.actions import Metadata
from airflow_delta.core.errors import SchemaMismatchError, UnsupportedWriterFeatureError
from airflow_delta.core.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    schema_json,
)
from airflow_delta.core.statements import WriteStatement
from airflow_delta.core.table_changes.definition_rules import definition_reasons

_KEPT_COLUMN_METADATA = ("comment", "__CHAR_VARCHAR_TYPE_STRING")
_UNKNOWN_SETTINGS = (("delta.columnmapping.mode", "name"), ("delta.columnmapping.mode", "id"), ("delta.checkpointpolicy", "v2"))


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
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=schema_json(schema),
        partition_columns=partition_by,
        configuration=dict(statement.properties),
        created_time=created,
    )
    if unknown := tuple(sorted(_unknown_properties(statement.properties))):
        raise UnsupportedWriterFeatureError(table=statement.table, features=unknown)
    if differences := tuple(definition_reasons(metadata)):
        raise SchemaMismatchError(table=statement.table, differences=differences)
    return metadata


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
