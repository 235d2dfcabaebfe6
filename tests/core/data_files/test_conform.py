"""Arrow data is converted to the table's schema: by name, without loss, and without copying unchanged columns."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.data_files import conform
from airflow_delta.core.schema import arrow_schema

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def conform_column(values, kind):
    return conform(pa.record_batch({"c": values}), pa.schema({"c": kind}))["c"]


def test_columns_of_equal_type_are_shared_not_copied():
    batch = pa.record_batch({"b": pa.array([1, 2]), "a": pa.array(["x", "y"])})

    found = conform(batch, pa.schema({"a": pa.string(), "b": pa.int64()}))

    assert found.to_pydict() == {"a": ["x", "y"], "b": [1, 2]}
    assert found["b"].buffers()[1].address == batch["b"].buffers()[1].address


def test_columns_are_found_in_any_case_but_the_exact_name_wins():
    batch = pa.record_batch([pa.array([1]), pa.array([2])], ["ID", "id"])

    assert conform(batch, pa.schema({"id": pa.int64()})).to_pydict() == {"id": [2]}
    assert conform(batch.select(["ID"]), pa.schema({"Id": pa.int64()})).to_pydict() == {"Id": [1]}
    with pytest.raises(pa.ArrowInvalid, match="2 columns of the file differ from 'Id' in case only"):
        conform(batch, pa.schema({"Id": pa.int64()}))


def test_missing_columns_and_members_are_null_and_unknown_ones_are_dropped():
    old = pa.struct([("b", pa.int32()), ("gone", pa.string()), ("A", pa.int8())])
    new = pa.struct([("a", pa.int8()), ("b", pa.int64()), ("c", pa.list_(pa.map_(pa.string(), pa.date32())))])
    batch = pa.record_batch({"s": pa.array([{"b": 1, "gone": "x", "A": 2}, None], old), "gone": [1, 2]})

    found = conform(batch, pa.schema({"new": pa.struct([("x", pa.int8())]), "s": new, "l": pa.list_(new)}))

    assert found.to_pylist() == [
        {"new": None, "s": {"a": 2, "b": 1, "c": None}, "l": None},
        {"new": None, "s": None, "l": None},
    ]


def test_members_inside_lists_and_maps_are_conformed_in_slices_too():
    old, new = pa.struct([("x", pa.int32())]), pa.struct([("y", pa.string()), ("x", pa.int64())])
    batch = pa.record_batch(
        {
            "l": pa.array([[{"x": 0}], [{"x": 1}, None], None, [], [{"x": 2}]], pa.list_(old)),
            "m": pa.array([[], [("k", {"x": 1})], None, [("k", None)], [("l", {"x": 2})]], pa.map_(pa.string(), old)),
        }
    )

    found = conform(batch.slice(1, 4), pa.schema({"l": pa.list_(new), "m": pa.map_(pa.string(), new)}))

    found.validate(full=True)
    assert found["l"].to_pylist() == [[{"y": None, "x": 1}, None], None, [], [{"y": None, "x": 2}]]
    assert found["m"].to_pylist() == [[("k", {"y": None, "x": 1})], None, [("k", None)], [("l", {"y": None, "x": 2})]]


@given(data=st.data())
def test_a_slice_conforms_to_the_slice_of_the_conformed(data, data_files):
    schema, table = data.draw(data_files.rows_of_any_schema())
    batch = pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], schema=table.schema)
    larger = pa.schema([widened(field) for field in arrow_schema(schema)])
    start, length = data.draw(st.integers(0, len(batch))), data.draw(st.integers(0, len(batch)))

    found = conform(batch.slice(start, length), larger)

    found.validate(full=True)
    assert repr(found.to_pylist()) == repr(conform(batch, larger).slice(start, length).to_pylist())
    assert repr(conform(found, table.schema).to_pylist()) == repr(batch.slice(start, length).to_pylist())


def widened(field):
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([pa.field("new", pa.int8()), *map(widened, kind)]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(widened(kind.value_field)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(kind.key_field, widened(kind.item_field)))
    return field


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        pytest.param(pa.array([1, None], pa.int32()), pa.int8(), [1, None], id="byte-stored-as-int32"),
        pytest.param(pa.array([1], pa.uint32()), pa.int64(), [1], id="unsigned"),
        pytest.param(pa.array([1.5], pa.float32()), pa.float64(), [1.5], id="float-to-double"),
        pytest.param(pa.array([3], pa.int32()), pa.float64(), [3.0], id="integer-to-double"),
        pytest.param(pa.array([3], pa.int32()), pa.decimal128(12, 2), [Decimal("3.00")], id="integer-to-decimal"),
        pytest.param(pa.array([Decimal("1.5")], pa.decimal128(3, 1)), pa.decimal128(12, 2), [Decimal("1.50")], id="decimal"),
        pytest.param(pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"], id="dictionary"),
        pytest.param(pa.array(["a"], pa.large_string()), pa.string(), ["a"], id="large-string"),
        pytest.param(pa.array(["a"], pa.string_view()), pa.string(), ["a"], id="string-view"),
        pytest.param(pa.array([b"a"]), pa.string(), ["a"], id="text-without-annotation"),
        pytest.param(pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"], id="fixed-size-binary"),
        pytest.param(pa.array([[1], None], pa.large_list(pa.int8())), pa.list_(pa.int64()), [[1], None], id="large-list"),
        pytest.param(
            pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), pa.list_(pa.int64()), [[1, 2], None], id="fixed-size-list"
        ),
        pytest.param(pa.nulls(2), pa.list_(pa.int64()), [None, None], id="null"),
        pytest.param(
            pa.array([1], pa.timestamp("ms")), pa.timestamp("us", "UTC"), [EPOCH + dt.timedelta(milliseconds=1)], id="ms"
        ),
        pytest.param(
            pa.array([0], pa.timestamp("us")),
            pa.timestamp("us", "UTC"),
            [EPOCH],
            id="utc-unsaid",
        ),
        pytest.param(
            pa.array([0], pa.timestamp("us", "Asia/Tokyo")),
            pa.timestamp("us", "UTC"),
            [EPOCH],
            id="another-zone-same-instant",
        ),
    ],
)
def test_other_spellings_of_a_type_keep_their_values(values, kind, expected):
    found = conform_column(values, kind)

    assert found.type == kind
    assert found.to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        pytest.param(pa.array([300], pa.int32()), pa.int8(), id="value-too-large"),
        pytest.param(pa.array([2**60 + 1]), pa.float64(), id="digits-lost"),
        pytest.param(pa.array([1.5]), pa.float32(), id="narrower-float"),
        pytest.param(pa.array([1.5]), pa.int64(), id="float-to-integer"),
        pytest.param(pa.array([Decimal("1.55")]), pa.decimal128(5, 1), id="scale-lost"),
        pytest.param(pa.array(["1"]), pa.int64(), id="text-to-number"),
        pytest.param(pa.array([1]), pa.string(), id="number-to-text"),
        pytest.param(pa.array([0], pa.timestamp("us", "UTC")), pa.timestamp("us"), id="instant-to-local-time"),
        pytest.param(pa.array([1], pa.timestamp("ns")), pa.timestamp("us"), id="nanoseconds-lost"),
        pytest.param(pa.array([b"\xff"]), pa.string(), id="bytes-that-are-no-text"),
        pytest.param(pa.array([[1]]), pa.int64(), id="list-to-number"),
        pytest.param(pa.array([{"x": "1"}]), pa.struct([("x", pa.int64())]), id="member-of-another-type"),
    ],
)
def test_values_that_would_change_are_refused_with_the_name_of_the_column(values, kind):
    with pytest.raises(pa.ArrowInvalid, match="column c: "):
        conform_column(values, kind)


def test_no_columns_still_count_their_rows():
    assert conform(pa.record_batch({"a": [1, 2, 3]}), pa.schema([])).num_rows == 3
