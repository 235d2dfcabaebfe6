"""How many bytes rows take: by the files that there are, else by their types."""

import json

import pyarrow as pa
import pytest

from airflow_delta.core.schema import ArrayType, DecimalType, MapType, StructField, StructType
from airflow_delta.core.schema.data_types import BINARY, BOOLEAN, DATE, LONG, STRING
from airflow_delta.spark.io.row_width import row_width, stored_row_bytes

SCHEMA = StructType((StructField("id", LONG), StructField("t", STRING)))


def files(*sizes_and_counts):
    sizes, counts = zip(*sizes_and_counts, strict=True)
    stats = [None if count is None else json.dumps({"numRecords": count}) for count in counts]
    return pa.table({"size": pa.array(sizes, pa.int64()), "stats": pa.array(stats, pa.string())})


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (files((1_000, 10), (3_000, 10)), 200),
        (files((1_000, 10), (10**12, None)), 100),
        (files((1_000, None)), 24),
        (files((5, 10)), 1),
        (files(*[(1_000, 10)] * 1_000, (10**12, 1)), 100),
    ],
    ids=["all counted", "some counted", "none counted", "tiny rows", "only the first ones are looked at"],
)
def test_rows_take_what_they_take_in_the_files_that_there_are(of, expected):
    assert stored_row_bytes(of, SCHEMA) == expected
    assert stored_row_bytes(of.slice(0, 0), SCHEMA) == 24


def test_without_files_the_types_say_it():
    types = {BOOLEAN: 1, DATE: 4, BINARY: 16, DecimalType(10, 2): 8, DecimalType(38, 2): 16, ArrayType(LONG): 32}
    assert {data_type: row_width(data_type) for data_type in types} == types
    assert row_width(MapType(STRING, LONG)) == 96
    assert row_width(StructType((StructField("a", SCHEMA), StructField("b", BOOLEAN)))) == 25
