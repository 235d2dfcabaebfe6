"""Conforms the rows of a source to a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.errors import SchemaMismatchError
from airflow_delta.core.schema import ArrayType, DataType, MapType, StructType
from airflow_delta.core.schema.char_columns import has_char
from airflow_delta.core.schema.column_names import field_key, name_key
from airflow_delta.core.schema.differences import schema_differences
from airflow_delta.spark.constraints.identity import NumberedRows
from airflow_delta.spark.constraints.values import completed, has_value_when_missing, refused_value
from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.io.all_nullable import all_nullable
from airflow_delta.spark.io.row_cache import RowCache
from airflow_delta.spark.jvm import in_session, is_connect
from airflow_delta.spark.schema_conversion import from_spark, quoted, to_spark
from airflow_delta.spark.session import is_case_sensitive, session_with
from airflow_delta.spark.statement.schema_evolution import extended

_SETTINGS = {"spark.sql.caseSensitive": "false"}  # otherwise a name in another case would count as missing, and become NULL


def repeated_names(schema: StructType, prefix: str = "") -> Iterator[str]:
    """One line for each name that several columns, or several fields of a struct, have, as Spark compares names."""
    for key, count in Counter(map(field_key, schema.names)).items():
        if count > 1:
            names = [name for name in schema.names if field_key(name) == key]
            if len(set(map(name_key, names))) == 1:
                yield f"{prefix}{name_key(names[0])}: {count} columns of this name"
            else:
                yield f"{prefix}{' and '.join(names)}: {count} columns of one name to Spark"
    for field in schema.fields:
        for struct in _outermost_structs(field.type):
            yield from repeated_names(struct, f"{prefix}{field.name}.")


def _outermost_structs(data_type: DataType) -> Iterator[StructType]:
    match data_type:
        case StructType():
            yield data_type
        case ArrayType(element):
            yield from _outermost_structs(element)
        case MapType(key, value):
            yield from _outermost_structs(key)
            yield from _outermost_structs(value)


def named_by_position(frame: DataFrame, schema: StructType, *, table: str, may_add: bool = False) -> DataFrame:
    """The rows, with columns renamed to the table's by position, and so the fields of structs at any depth.

    Args:
        frame: The rows.
        schema: The table's columns.
        table: URI of the table, for errors.
        may_add: Whether the rows may have additional columns, which keep their names.

    Raises:
        SchemaMismatchError: The rows have more or fewer columns; or a struct has fewer fields.
    """
    if len(frame.columns) != len(schema.names) and not (may_add and len(frame.columns) > len(schema.names)):
        found = (
            f"the rows have {len(frame.columns)} columns, and the table has {len(schema.names)}: ({', '.join(schema.names)})"
        )
        raise SchemaMismatchError(table=table, differences=(found,))
    differences: list[str] = []
    found_type, wanted = frame.schema, to_spark(schema)
    named = _named(found_type, wanted, "", differences)
    if differences:
        raise SchemaMismatchError(table=table, differences=tuple(differences))
    is_flat = all(found.dataType == kept.dataType for found, kept in zip(found_type.fields, named.fields, strict=True))
    if is_flat:
        return frame.toDF(*named.names)
    places = list(map(str, range(len(named.fields))))
    # A cast to the same type with other names renames nested fields, by position.
    columns = (
        F.col(place).cast(field.dataType).alias(field.name, metadata=field.metadata)
        for place, field in zip(places, named.fields, strict=True)
    )
    return frame.toDF(*places).select(*columns)


def _named(found: Any, wanted: Any, path: str, differences: list[str]) -> Any:
    """A Spark type with the struct field names of another one, by position."""
    match found, wanted:
        case spark_types.StructType(), spark_types.StructType():
            if len(found.fields) < len(wanted.fields):
                names = ", ".join(wanted.names)
                differences.append(f"{path}: {len(found.fields)} members in the source, and the table has ({names})")
            fields = [
                spark_types.StructField(
                    other.name,
                    _named(field.dataType, other.dataType, f"{path}.{other.name}" if path else other.name, differences),
                    field.nullable,
                    field.metadata,
                )
                for field, other in zip(found.fields, wanted.fields, strict=False)
            ]
            return spark_types.StructType([*fields, *found.fields[len(wanted.fields) :]])
        case spark_types.ArrayType(), spark_types.ArrayType():
            element = _named(found.elementType, wanted.elementType, f"{path}.element", differences)
            return spark_types.ArrayType(element, found.containsNull)
        case spark_types.MapType(), spark_types.MapType():
            key = _named(found.keyType, wanted.keyType, f"{path}.key", differences)
            value = _named(found.valueType, wanted.valueType, f"{path}.value", differences)
            return spark_types.MapType(key, value, found.valueContainsNull)
        case _:
            return found


def conform_to_schema(frame: DataFrame, schema: StructType, *, table: str, cache: RowCache) -> NumberedRows:
    """The rows with exactly the columns of the table, matched by name at any depth.

    A column that the rows lack gets the table's own value (its default, generated or identity value), else NULL. A number that
    does not fit its column fails the job that computes it. Constraints are checked by the writer. ``cache`` keeps the rows if
    identity values are assigned.

    Returns:
        The rows, and the last identity values assigned, which the commit records (``with_marks``).

    Raises:
        SchemaMismatchError: The rows do not fit, by the rules of ``schema_differences``, or contain values for a column that is
            GENERATED ALWAYS AS IDENTITY.
        TableRuleUnreadableError: A default or generated column is not valid Spark SQL.
        ConstraintViolatedError: The range of an identity column is exhausted.
    """
    rows = from_spark(frame.schema)
    given = {field.name for field in schema.fields if rows.find(field.name) is not None}
    own = {field.name for field in schema.fields if field.name not in given and has_value_when_missing(field)}
    may_lack = StructType(tuple(replace(field, nullable=True) if field.name in own else field for field in schema.fields))
    refused = (text for field in schema.fields if field.name in given and (text := refused_value(field)) is not None)
    both = extended(schema, rows, widen=False)  # otherwise Spark might resolve a column of the rows as another one of the table
    repeated = dict.fromkeys((*repeated_names(rows), *repeated_names(both)))
    if differences := (*repeated, *schema_differences(rows, may_lack, missing_as_null=True), *refused):
        raise SchemaMismatchError(table=table, differences=differences)
    if is_connect(frame.sparkSession) and is_case_sensitive(frame.sparkSession):  # with Spark Connect, rows are analyzed later
        instead = "set spark.sql.caseSensitive to false in the session"
        raise SparkConnectUnsupportedError(feature="a write by a session that is case-sensitive", instead=instead)
    spark = frame.sparkSession
    named = in_session(frame, session_with(spark, _SETTINGS)).to(to_spark(all_nullable(schema)))
    # A string that is CHAR in its source is not CHAR here; coalesce drops that metadata.
    plain = [
        field.name for field in schema.fields if (found := rows.find(field.name)) and has_char(found) and not has_char(field)
    ]
    named = named.withColumns({name: F.coalesce(quoted(name)) for name in plain}) if plain else named
    numbered = completed(named, schema, given, table=table, cache=cache)
    return replace(numbered, frame=in_session(numbered.frame, spark))
