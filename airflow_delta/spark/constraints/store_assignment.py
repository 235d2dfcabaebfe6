"""Converts values to the types of their columns by one rule in every session: a value that does not fit fails the job.

Spark: ``spark.sql.storeAssignmentPolicy`` ANSI, which Spark's own casts only follow if ``spark.sql.ansi.enabled`` is true.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.types import DataType as SparkType

from airflow_delta.core.schema import ArrayType, DataType, MapType, StructField, StructType
from airflow_delta.spark.schema_conversion import to_spark


def stored_value(value: Column, given: DataType | None, wanted: DataType, former: Column | None = None) -> Column:
    """The value in the type of its column, with struct fields matched by name, while Spark's cast goes by position.

    Missing fields are taken from ``former``, or NULL.

    ``given`` may be None for equal types. A number that does not fit the column fails the job, even in a session whose casts
    would overflow, truncate or return NULL (``spark.sql.ansi.enabled`` false): ``try_cast`` returns NULL for it in every
    session.
    """
    match given, wanted:
        case None, _:
            return value
        case StructType(), StructType():
            members = []
            for field in wanted.fields:
                member, left = given.find(field.name), None if former is None else former.getField(field.name)
                if member is None:
                    part = (F.lit(None) if left is None else left).cast(spark_type(field.type))
                else:
                    part = stored_value(value.getField(member.name), member.type, field.type, left)
                members.append(part.alias(field.name))
            return F.when(value.isNotNull(), F.struct(*members))
        case ArrayType(), ArrayType():
            return F.transform(value, lambda element: stored_value(element, given.element_type, wanted.element_type))
        case MapType(), MapType():
            keys = F.transform(F.map_keys(value), lambda key: stored_value(key, given.key_type, wanted.key_type))
            return F.map_from_arrays(
                keys, F.transform(F.map_values(value), lambda item: stored_value(item, given.value_type, wanted.value_type))
            )
        case _:
            cast = value.try_cast(spark_type(wanted))
            # In a session with ANSI mode, the other cast fails with Spark's own error.
            became = F.coalesce(value.cast(spark_type(wanted)).cast("string"), F.lit("NULL"))
            text = F.concat(value.cast("string"), F.lit(f" does not fit the type {wanted}: it would be "), became)
            return F.when(value.isNull() | cast.isNotNull(), cast).otherwise(F.raise_error(text))


def spark_type(data_type: DataType) -> SparkType:
    """The type as a Spark type."""
    return to_spark(StructType((StructField("value", data_type),))).fields[0].dataType


def named_as(given: DataType, wanted: DataType) -> DataType:
    """The given type, with struct field names taken from the wanted type by position."""
    match given, wanted:
        case StructType(), StructType():
            pairs = zip(given.fields, wanted.fields, strict=True)
            return StructType(
                tuple(replace(field, name=other.name, type=named_as(field.type, other.type)) for field, other in pairs)
            )
        case ArrayType(), ArrayType():
            return replace(given, element_type=named_as(given.element_type, wanted.element_type))
        case MapType(), MapType():
            key, value = named_as(given.key_type, wanted.key_type), named_as(given.value_type, wanted.value_type)
            return replace(given, key_type=key, value_type=value)
        case _:
            return given
