"""How many bytes rows take: by the files that there are, else by their types."""

import json

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.schema import ArrayType, DecimalType, MapType, StructField, StructType
from airflow_delta.core.schema.data_types import BINARY, BOOLEAN, DATE, FLOAT, LONG, STRING, VARIANT
from airflow_delta.spark.io.row_width import row_bytes, row_width, stored_row_bytes
from airflow_delta.spark.schema_conversion import to_spark

SCHEMA = StructType((StructField("id", LONG), StructField("t", STRING)))


def files(*sizes_and_counts):
    sizes, counts = zip(*sizes_and_counts, strict=True)
    stats = [None if count is None else json.dumps({"numRecords": count}) for count in counts]
    return pa.table({"size": pa.array(sizes, pa.int64()), "stats": pa.array(stats, pa.string())})


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (files((100_000, 1_000), (300_000, 1_000)), 200),
        (files((100_000, 1_000), (10**12, None)), 100),
        (files((1_000, None)), None),
        (files((500, 1_000)), 1),
        (files((2_000_000, 999)), None),
        (files(*[(1_000, 10)] * 1_000, (10**12, 1)), 100),
        (files((1_000, 10)).slice(0, 0), None),
    ],
    ids=[
        "all counted",
        "some counted",
        "none counted",
        "tiny rows",
        "too few rows",
        "only the first ones are looked at",
        "no file",
    ],
)
def test_rows_take_what_they_take_in_the_files_that_there_are(of, expected):
    assert stored_row_bytes(of) == expected


def test_the_types_say_how_wide_values_are_about():
    types = {BOOLEAN: 1, DATE: 4, BINARY: 16, DecimalType(10, 2): 8, DecimalType(38, 2): 16, ArrayType(LONG): 32}
    assert {data_type: row_width(data_type) for data_type in types} == types
    assert row_width(MapType(STRING, LONG)) == 96
    assert row_width(StructType((StructField("a", SCHEMA), StructField("b", BOOLEAN)))) == 25


@pytest.mark.parametrize(
    ("value", "data_type", "expected"),
    [
        ("7L", LONG, 8),
        ("repeat('é', 50)", STRING, 100),
        ("CAST(NULL AS STRING)", STRING, 0),
        ("X'010203'", BINARY, 3),
        ("array_repeat(1.5F, 300)", ArrayType(FLOAT), 1_200),
        ("CAST(NULL AS ARRAY<FLOAT>)", ArrayType(FLOAT), 0),
        ("array('a', NULL, 'bcd')", ArrayType(STRING), 4),
        ("map('key', 1L, 'k', 2L)", MapType(STRING, LONG), 20),
        ("named_struct('id', 1L, 't', 'four')", SCHEMA, 12),
        ("array_repeat(named_struct('id', 1L, 't', 'four'), 3)", ArrayType(SCHEMA), 36),
        ("array(array(1L), array(2L, 3L))", ArrayType(ArrayType(LONG)), 24),
        ("""parse_json('{"a":1}')""", VARIANT, 7),
    ],
)
def test_values_of_any_length_are_counted(spark, value, data_type, expected):
    rows = spark.sql(f"SELECT {value} AS `a column`, true AS b")
    schema = StructType((StructField("a column", data_type), StructField("b", BOOLEAN)))
    assert rows.select(row_bytes(schema)).first()[0] == expected + 1


def test_of_very_many_texts_some_are_counted(spark):
    schema = StructType(tuple(StructField(f"c{number}", STRING) for number in range(100)))
    rows = spark.range(1).select(*(F.lit("x" * 100).alias(name) for name in schema.names))
    assert rows.select(row_bytes(schema)).first()[0] == 64 * 100 + 36 * 16


def test_values_inside_of_many_others_are_guessed(spark):
    data_type = StructType((StructField("t", STRING),))
    for _ in range(8):
        data_type = StructType((StructField("t", STRING), StructField("items", ArrayType(data_type))))
    schema = StructType((StructField("value", data_type),))
    text = to_spark(schema).fields[0].dataType.simpleString()
    rows = spark.sql(f'SELECT from_json(\'{{"t":"abc","items":[{{"t":"de"}}]}}\', \'{text}\') AS value')
    inner = data_type.fields[1].type.element_type.fields[1].type
    assert rows.select(row_bytes(schema)).first()[0] == 1 + 3 + 2 + row_width(inner)
