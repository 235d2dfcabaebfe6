"""CHAR(n) in rows to be written, in the form that readers of the session will show.

This way, rules of the table, conditions of the statement and later reads see the same value. If readers pad (``pads_char``),
strings are padded before anything is computed from them or checked. Spark's comparisons, which pad what a CHAR is compared
with, recognize such a column by its metadata. Spark: ``CharVarcharCodegenUtils.charTypeWriteSideCheck``, which also trims
trailing spaces of strings that are too long; here, as in Delta Spark, they are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.schema import ArrayType, DataType, MapType, StructField, StructType
from airflow_delta.core.schema.char_columns import CHAR_VARCHAR, Padding, has_char, paddings
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.schema_conversion import quoted
from airflow_delta.spark.session import pads_char


def padded(rows: DataFrame, fields: Iterable[StructField]) -> DataFrame:
    """The rows with these columns as readers show them; columns without CHAR stay unchanged.

    Args:
        rows: Rows with these columns, by name and with their types.
        fields: Columns of the table.

    Raises:
        UnsupportedTypeError: A length is too large.
    """
    with_char = [field for field in fields if has_char(field)]
    if not with_char:
        return rows
    pads = paddings(StructType(tuple(with_char))) if pads_char(rows.sparkSession) else {}
    shown = {name_key(field.name): _shown(field, pads.get(field.name)) for field in with_char}
    # Not `withColumns`, with which a Spark Connect server loses the metadata.
    return rows.select(*(shown.get(name_key(name), F.col(quoted(name))) for name in rows.columns))


def _shown(field: StructField, padding: Padding | None) -> Column:
    value = F.col(quoted(field.name))
    value = value if padding is None else _padded(value, field.type, padding)
    return value.alias(field.name, metadata={CHAR_VARCHAR: field.metadata[CHAR_VARCHAR]})


def _padded(value: Column, data_type: DataType, padding: Padding) -> Column:
    inside = padding.inside or {}

    def part(position: int, kind: DataType, found: Column) -> Column:
        return _padded(found, kind, inside[position]) if position in inside else found

    match data_type:
        case StructType(fields):
            members = [part(at, field.type, value.getField(field.name)).alias(field.name) for at, field in enumerate(fields)]
            return F.when(value.isNotNull(), F.struct(*members))
        case ArrayType(element):
            return F.transform(value, lambda item: part(0, element, item))
        case MapType(key, item):
            keys = F.transform(F.map_keys(value), lambda found: part(0, key, found))
            return F.map_from_arrays(keys, F.transform(F.map_values(value), lambda found: part(1, item, found)))
        case _:
            return F.when(F.length(value) < padding.length, F.rpad(value, padding.length, " ")).otherwise(value)
