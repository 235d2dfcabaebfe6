"""Makes Spark evaluate conditions on floats correctly, in spite of bounds and dictionaries.

In Spark, NaN is greater than every number, and -0.0 equals 0.0. Bounds in Parquet files written by Arrow omit NaN, and so do
those of Spark's in-memory cache; dictionaries distinguish -0.0 from 0.0. Spark skips data by all of them, although a condition
may be true for such rows (``x > 100``, ``x = 0.0``): verified with 4.0 to 4.3.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

WITHOUT_SKIPPING = {f"parquet.filter.{by}.enabled": "false" for by in ("stats", "columnindex", "dictionary", "bloom")}
"""Options that keep Spark's Parquet reader from skipping data inside of files."""

PROJECTED_COLUMNS = 100
"""Up to how many columns Spark compiles a projection as a whole (default of ``spark.sql.codegen.maxFields``).

Beyond it, reading all columns through ``with_floats_unskipped`` is slow: a write of 2,000 columns took 1.3 times as long.
"""

_FLOATS = (spark_types.FloatType, spark_types.DoubleType)


def is_float(kind: spark_types.DataType) -> bool:
    """Whether this is a floating-point type."""
    return isinstance(kind, _FLOATS)


def has_floats(columns: spark_types.StructType) -> bool:
    """Whether any of these columns is of a floating-point type; fields of structs do not count."""
    return any(is_float(field.dataType) for field in columns.fields)


def has_float_members(columns: spark_types.StructType) -> bool:
    """Whether structs, at any depth, have floating-point fields; inside lists and maps, Spark skips nothing."""
    structs = [field.dataType for field in columns.fields if isinstance(field.dataType, spark_types.StructType)]
    return any(has_floats(struct) or has_float_members(struct) for struct in structs)


def unskipped(column: Column) -> Column:
    """The same column in a form that is not pushed down: only conditions on plain columns reach the reader."""
    return F.nanvl(column, column)


def with_floats_unskipped(rows: DataFrame) -> DataFrame:
    """The rows, with floating-point columns ``unskipped``; column names may occur twice."""
    fields = rows.schema.fields
    if not has_floats(rows.schema):
        return rows
    places = {str(place): field for place, field in enumerate(fields)}
    columns = ((F.col(place), field) for place, field in places.items())
    return rows.toDF(*places).select(
        *(
            (unskipped(column) if is_float(field.dataType) else column).alias(field.name, metadata=field.metadata)
            for column, field in columns
        )
    )
