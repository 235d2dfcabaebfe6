"""Maximum lengths of strings in a table's columns, as conditions on rows.

Spark stores ``varchar(n)`` and ``char(n)`` in the metadata of a column that is a string in the log. Spark:
``CharVarcharConstraint``.
"""

from __future__ import annotations

from operator import or_

from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.schema import StructType
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR
from airflow_delta.spark.errors import TableRuleUnreadableError
from airflow_delta.spark.folded import folded
from airflow_delta.spark.schema_conversion import quoted


def violations(schema: StructType) -> dict[str, Column]:
    """For each column of limited length, by its constraint, the condition that is TRUE for a row with a too long string.

    Raises:
        TableRuleUnreadableError: Spark cannot parse a limit.
    """
    limits = {field.name: str(field.metadata[CHAR_VARCHAR]) for field in schema.fields if CHAR_VARCHAR in field.metadata}
    found = {
        f"the length of {name} ({limit})": _too_long(_type(name, limit), F.col(quoted(name))) for name, limit in limits.items()
    }
    return {constraint: folded(or_, broken) for constraint, broken in found.items() if broken}


def _type(name: str, limit: str) -> spark_types.DataType:
    try:
        return spark_types.DataType.fromDDL(limit)
    except ParseException as error:
        raise TableRuleUnreadableError(rule=f"the length of {name}", detail=f"{limit!r} is no type") from error


def _too_long(data_type: spark_types.DataType, value: Column) -> list[Column]:
    """Conditions, one of which is TRUE if a string at any depth is too long; NULL is never too long."""
    match data_type:
        case spark_types.CharType() | spark_types.VarcharType():
            return [F.length(value) > data_type.length]
        case spark_types.StructType():
            return [broken for field in data_type.fields for broken in _too_long(field.dataType, value.getField(field.name))]
        case spark_types.ArrayType():
            return _in_elements(data_type.elementType, value)
        case spark_types.MapType():
            keys = _in_elements(data_type.keyType, F.map_keys(value))
            return keys + _in_elements(data_type.valueType, F.map_values(value))
        case _:
            return []


def _in_elements(element: spark_types.DataType, values: Column) -> list[Column]:
    if not _too_long(element, F.lit(None)):
        return []
    return [F.exists(values, lambda item: folded(or_, _too_long(element, item)))]
