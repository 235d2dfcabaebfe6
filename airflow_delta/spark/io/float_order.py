"""Floats in the order of Spark's conditions, whatever bounds and dictionaries say of them.

NaN is greater than every number there, and -0.0 is 0.0. Bounds in Parquet files of Arrow leave NaN out, those of rows that
Spark keeps in memory do, too, and a dictionary holds -0.0 apart from 0.0. Spark skips rows by all of them, though a condition
is true of these (``x > 100``, ``x = 0.0``): measured with 4.0 to 4.3.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

WITHOUT_SKIPPING = {f"parquet.filter.{by}.enabled": "false" for by in ("stats", "columnindex", "dictionary", "bloom")}
"""Options of Spark's Parquet reader: it skips nothing inside of files."""

_FLOATS = (spark_types.FloatType, spark_types.DoubleType)


def is_float(kind: spark_types.DataType) -> bool:
    """Whether these are floats."""
    return isinstance(kind, _FLOATS)


def has_float_members(columns: spark_types.StructType) -> bool:
    """Whether structs, at any depth, have floats as members; Spark skips nothing by what is in lists and maps."""
    structs = [field.dataType for field in columns.fields if isinstance(field.dataType, spark_types.StructType)]
    return any(is_float(field.dataType) for struct in structs for field in struct.fields) or any(
        map(has_float_members, structs)
    )


def unskipped(column: Column) -> Column:
    """The same floats, of which no condition reaches the reader: it takes those on columns alone."""
    return F.nanvl(column, column)


def with_floats_unskipped(rows: DataFrame) -> DataFrame:
    """The rows, whose columns of floats are ``unskipped``; two columns may have one name."""
    fields = rows.schema.fields
    if not any(is_float(field.dataType) for field in fields):
        return rows
    places = {str(place): field for place, field in enumerate(fields)}
    columns = ((F.col(place), field) for place, field in places.items())
    return rows.toDF(*places).select(
        *(
            (unskipped(column) if is_float(field.dataType) else column).alias(field.name, metadata=field.metadata)
            for column, field in columns
        )
    )
