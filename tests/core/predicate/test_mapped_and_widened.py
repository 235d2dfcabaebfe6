"""What the log shows about columns that were renamed or got a wider type since the files were written."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from airflow_delta.core.predicate import ALL, MAYBE, NO, evaluate_files, parse_predicate
from airflow_delta.core.schema import DecimalType, StructField, StructType, partition_arrays
from airflow_delta.core.schema.column_mapping import PHYSICAL_NAME_KEY
from airflow_delta.core.schema.data_types import DATE, DOUBLE, INTEGER, LONG, STRING, TIMESTAMP_NTZ, VARIANT

MAP = pa.map_(pa.string(), pa.string())


def mapped(name, data_type, physical):
    return StructField(name, data_type, metadata={PHYSICAL_NAME_KEY: physical})


def verdict(where, schema, *, stats=None, values=(), partitions=()):
    files = pa.table(
        {"partition_values": pa.array([list(values)], MAP), "stats": pa.array([json.dumps(stats) if stats else None])}
    )
    return evaluate_files(parse_predicate(where, schema, "t"), files, schema, partitions)[0].as_py()


def bounds(low, high, **column):
    return {"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": column}


SWAPPED = StructType((mapped("a", LONG, "b"), mapped("b", LONG, "a"), mapped("s", StructType((mapped("x", LONG, "y"),)), "p")))


@pytest.mark.parametrize(
    ("where", "expected"), [("a = 1", NO), ("a >= 5", ALL), ("b = 1", ALL), ("s.x = 7", ALL), ("s.x > 7", NO)]
)
def test_statistics_are_found_by_physical_names_at_every_level(where, expected):
    stats = bounds({"a": 1, "b": 5, "p": {"y": 7}}, {"a": 1, "b": 6, "p": {"y": 7}}, a=0, b=0, p={"y": 0})
    assert verdict(where, SWAPPED, stats=stats) == expected


def test_partition_values_are_found_by_physical_names():
    schema = StructType((mapped("day", DATE, "col-1"), mapped("col-1", STRING, "day")))
    values = [("col-1", "2020-01-02"), ("day", "text")]
    assert verdict("day = DATE'2020-01-02' AND `col-1` = 'text'", schema, values=values, partitions=schema.names) == ALL
    files = pa.table({"partition_values": pa.array([values], MAP)})
    found = partition_arrays(files, schema.fields)
    assert {name: values.to_pylist() for name, values in found.items()} == {"day": [dt.date(2020, 1, 2)], "col-1": ["text"]}


def widened(kind):
    changes = [{"fromType": "whatever", "toType": str(kind)}]
    return StructType((StructField("c", kind, metadata={"delta.typeChanges": changes}),))


@pytest.mark.parametrize(
    ("kind", "low", "high", "below", "inside", "above"),
    [
        (INTEGER, -128, 127, "-129", "127", "128"),  # byte
        (LONG, -(2**31), 5, "-2147483649", "5", "6"),
        (DOUBLE, -7, 2**31 - 1, "-7.5D", "2147483647D", "2147483648D"),
        (DOUBLE, 1.1, 3.4, "1D", "3.4000000953674316D", "3.41D"),  # float: 3.4 stands for a little more
        (DecimalType(12, 4), 1.25, 9.5, "1.2499", "9.5", "9.5001"),
        (DecimalType(20, 0), -(2**62), 2**62, "-4611686018427400000", "4611686018427387904", "4611686018427400000"),
        (TIMESTAMP_NTZ, "2020-01-01", "2020-02-01", "'2019-12-31 23:59:59'", "'2020-02-01 00:00:00'", "'2020-02-01 00:00:01'"),
    ],
)
def test_bounds_written_before_a_widening_hold(kind, low, high, below, inside, above):
    schema, stats = widened(kind), bounds({"c": low}, {"c": high}, c=0)
    assert verdict(f"c = {inside}", schema, stats=stats) == MAYBE
    assert verdict(f"c <= {below}", schema, stats=stats) == NO
    assert verdict(f"c >= {above}", schema, stats=stats) in ((MAYBE,) if kind == DOUBLE else (NO,))  # NaN is above all
    assert verdict(f"c > {inside}", schema, stats=stats) in (NO, MAYBE)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (LONG, "-128", -128),
        (DOUBLE, "7", 7.0),
        (DecimalType(12, 4), "1.25", Decimal("1.2500")),
        (TIMESTAMP_NTZ, "2020-01-02", dt.datetime.fromisoformat("2020-01-02T00:00:00")),
    ],
)
def test_partition_values_written_before_a_widening_are_read_as_the_new_type(kind, text, value):
    files = pa.table({"partition_values": pa.array([[("c", text)]], MAP)})
    assert partition_arrays(files, widened(kind).fields)["c"].to_pylist() == [value]


def test_of_a_variant_only_the_number_of_nulls_is_believed():
    schema = StructType((StructField("v", VARIANT), StructField("n", LONG)))
    stats = bounds({"v": "0S&u501fk+ze0(tB98CpzF6vU", "n": 1}, {"v": "0S&u500&]LC42A9vqZe}wb#", "n": 1}, v=0, n=0)
    assert verdict("v IS NULL", schema, stats=stats) == NO
    assert verdict("v IS NOT NULL AND n = 1", schema, stats=stats) == ALL
    assert verdict("v = 1", schema, stats=stats) == MAYBE
