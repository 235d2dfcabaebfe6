"""The NOT NULL constraints in a table's schema, as conditions on rows."""

from __future__ import annotations

from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.schema import ArrayType, DataType, MapType, StructType
from airflow_delta.core.schema.data_types import BINARY, STRING
from airflow_delta.spark.folded import folded
from airflow_delta.spark.schema_conversion import quoted


def violations(schema: StructType, partition_columns: tuple[str, ...] = ()) -> dict[str, Column]:
    """For each NOT NULL of the schema, by its name, the condition that is TRUE for a row that violates it.

    An empty string in a partition column is NULL in the log, and so counts as NULL here.
    """
    found: dict[str, Column] = {}
    for field in schema.fields:
        if field.nullable and not isinstance(field.type, StructType | ArrayType | MapType):
            continue  # most columns; skipped because each F.col calls the JVM
        column = F.col(quoted(field.name))
        if not field.nullable:
            counts_empty = field.name in partition_columns and field.type in (STRING, BINARY)
            found[f"NOT NULL of {field.name}"] = column.isNull() | (F.length(column) == 0) if counts_empty else column.isNull()
        if broken := _broken_inside(field.type, column):
            found[f"NOT NULL inside {field.name}"] = folded(or_, broken)
    return found


def _broken_inside(data_type: DataType, value: Column) -> list[Column]:
    """Conditions, one of which is TRUE if a nested NOT NULL is violated; only valid if the outer value is not NULL."""
    match data_type:
        case StructType(fields):
            members = [(field, value.getField(field.name)) for field in fields]
            missing = [value.isNotNull() & member.isNull() for field, member in members if not field.nullable]
            return missing + [broken for field, member in members for broken in _broken_inside(field.type, member)]
        case ArrayType(element, contains_null):
            return _broken_elements(element, value, may_be_null=contains_null)
        case MapType(key, item, contains_null):
            keys = _broken_elements(key, F.map_keys(value), may_be_null=True)  # Spark has no NULL keys
            return keys + _broken_elements(item, F.map_values(value), may_be_null=contains_null)
        case _:
            return []


def _broken_elements(element: DataType, values: Column, *, may_be_null: bool) -> list[Column]:
    def broken(item: Column) -> list[Column]:
        return ([] if may_be_null else [item.isNull()]) + _broken_inside(element, item)

    return [F.exists(values, lambda item: folded(or_, broken(item)))] if broken(F.lit(None)) else []
