"""The reader returns what the writer wrote, and the statistics are correct for every row."""

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.data_files import StatisticsSelection, describe_file
from airflow_delta.core.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_schema,
    with_column_mapping,
)

EVERYTHING = StatisticsSelection(indexed_columns=-1)
EXTREMES = {
    "long": [-(2**63), 2**63 - 1, 0, None],
    "double": [float("-inf"), float("inf"), float("nan"), -0.0, 5e-324],
    "date": [-719162, 2932896, -141428, -(2**31), 2**31 - 1],
    "timestamp": [-62135596800000000, 253402300799999999, -1, -(2**63), 2**63 - 1],
    "timestamp_ntz": [-62135596800000000, 253402300799999999, -1, -(2**63), 2**63 - 1],
}


@given(data=st.data())
def test_rows_of_every_type_are_read_back_as_they_were_written(data, data_files, tmp_path_factory):
    schema, table = data.draw(data_files.rows_of_any_schema(min_size=1))
    path = tmp_path_factory.mktemp("round_trip") / "file.parquet"

    data_files.write_file(path, table, schema, row_group_rows=5)

    found = data_files.read_file(path, schema)
    assert found.schema.equals(arrow_schema(schema))
    assert repr(found.to_pylist()) == repr(table.to_pylist())  # repr: NaN is NaN, -0.0 is not 0.0


@given(data=st.data())
def test_rows_of_every_type_are_read_back_by_id_and_by_physical_name(data, data_files, tmp_path_factory):
    schema, table = data.draw(data_files.rows_of_any_schema(min_size=1))
    mapped, _ = with_column_mapping(schema, max_id=0)
    path = tmp_path_factory.mktemp("round_trip") / "file.parquet"

    data_files.write_file(path, table, mapped, row_group_rows=5)

    assert repr(data_files.read_file(path, mapped).to_pylist()) == repr(table.to_pylist())
    assert repr(data_files.read_file(path, mapped, by_id=True).to_pylist()) == repr(table.to_pylist())


@pytest.mark.parametrize("name", EXTREMES)
def test_values_at_the_ends_of_a_type_are_read_back(name, data_files, tmp_path):
    schema = StructType((StructField("c", PrimitiveType(name)),))
    kind = arrow_schema(schema).field("c").type
    width = {"date": pa.int32()}.get(name, pa.int64())
    values = pa.array(EXTREMES[name], kind) if name == "double" else pa.array(EXTREMES[name], width).cast(kind)

    data_files.write_file(tmp_path / "file.parquet", pa.table({"c": values}), schema)

    found = data_files.read_file(tmp_path / "file.parquet", schema)["c"].combine_chunks()
    assert found.buffers()[1].to_pybytes() == values.buffers()[1].to_pybytes()


@given(data=st.data())
def test_statistics_of_the_writer_and_of_the_footer_hold_for_every_row(data, data_files, tmp_path_factory):
    schema, table = data.draw(data_files.rows_of_any_schema(min_size=1))
    path = tmp_path_factory.mktemp("statistics") / "file.parquet"

    written = data_files.write_file(path, table, schema, row_group_rows=5, selection=EVERYTHING)
    by_footer = describe_file(data_files.LOCAL, str(path), schema, EVERYTHING)

    assert (written.num_records, written.size) == (table.num_rows, path.stat().st_size)
    assert (by_footer.num_records, by_footer.size) == (written.num_records, written.size)
    for stats, is_observed in ((written.stats, True), (by_footer.stats, False)):
        document = json.loads(stats, parse_float=Decimal)
        assert document["numRecords"] == table.num_rows
        for path_of_leaf, kind in EVERYTHING.leaves(schema):
            values = [leaf_of(row, path_of_leaf) for row in table.to_pylist()]
            found = [get(document[key], path_of_leaf) for key in ("minValues", "maxValues", "nullCount")]
            check_leaf(kind, values, *found, is_observed=is_observed)


def leaf_of(row, path):
    for name in path:
        row = None if row is None else row[name]
    return row


def get(tree, path):
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def check_leaf(kind, values, low, high, null_count, *, is_observed):
    present = [value for value in values if value is not None]
    is_nested = isinstance(kind, ArrayType | MapType)
    assert null_count == (len(values) - len(present) if is_observed or not is_nested else None)
    if not present or is_nested or kind in (PrimitiveType("boolean"), PrimitiveType("binary")):
        assert low is None
        assert high is None
        return
    if isinstance(kind, DecimalType) or kind.name in ("byte", "short", "integer", "long"):
        assert (low, high) == (min(present), max(present))
    elif kind.name in ("float", "double"):
        can_tell = is_observed and not any(map(math.isnan, present))
        assert low == (Decimal(repr(min(present))) if can_tell and math.isfinite(min(present)) else None)
        assert high == (Decimal(repr(max(present))) if can_tell and math.isfinite(max(present)) else None)
    elif kind.name == "date":
        assert (low, high) == (min(present).isoformat(), max(present).isoformat())
    elif kind.name == "string":
        check_strings(present, low, high)
    else:
        check_times(present, low, high, "Z" if kind.name == "timestamp" else "")


def check_strings(present, low, high):
    units = len(low.encode("utf-16-le")) // 2
    assert units <= 32
    assert min(present).startswith(low)
    assert units >= 31 or low == min(present)
    if high is None:
        assert max(present).count("\U0010ffff") >= 16
    else:
        assert max(present) <= high
        assert len(high.encode("utf-16-le")) // 2 <= 66


def check_times(present, low, high, zone):
    millisecond = dt.timedelta(milliseconds=1)
    assert low.endswith(zone)
    found = dt.datetime.fromisoformat(low)
    assert found <= min(present)
    assert min(present) - found < millisecond
    if high is None:
        assert max(present).replace(tzinfo=dt.UTC) > dt.datetime.max.replace(tzinfo=dt.UTC) - millisecond
    else:
        found = dt.datetime.fromisoformat(high)
        assert found >= max(present)
        assert found - max(present) < millisecond
