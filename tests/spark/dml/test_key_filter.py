"""A filter of keys: each key that went in passes, whatever its type; of others few do, and no NULL."""

import datetime as dt
import sys
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_delta.spark.dml import key_filter
from airflow_delta.spark.dml.key_filter import KeyFilter, add
from airflow_delta.spark.io.shared_bytes import CarriedBytes

TYPES = {
    "longs": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "days": (pa.date32(), st.dates()),
    "instants": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "local times": (pa.timestamp("us"), st.datetimes()),
    "decimals": (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "wide decimals": (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    "texts": (pa.string(), st.text(max_size=600)),
    "bytes": (pa.binary(), st.binary(max_size=20) | st.binary(min_size=250, max_size=600)),
}
ROWS = {
    "longs": [0, -1, 1 << 62],
    "texts": ["", "a" * 7, "a" * 8, "a" * 9, "a" * 256, "a" * 257, "a" * 300, "é" * 200],
    "bytes": [b"", b"\0", b"\0\0"],
}


@st.composite
def keys(draw):
    """A table of keys of one or two columns, in which NULLs occur, and one of those that go into the filter."""
    kinds = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=2))
    row = st.tuples(*(st.none() | st.sampled_from(ROWS.get(kind, [None])) | TYPES[kind][1] for kind in kinds))
    rows = draw(st.lists(row, max_size=60))
    schema = pa.schema([(f"c{number}", TYPES[kind][0]) for number, kind in enumerate(kinds)])
    return schema, rows, draw(st.sets(st.sampled_from(rows))) if rows else set()


def batch(schema, rows):
    columns = zip(*rows, strict=True) if rows else [[]] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@given(keys(), st.integers(1, 100))
@settings(max_examples=150, deadline=None)
def test_the_keys_that_went_in_pass_and_no_null_does(case, words):
    schema, rows, chosen = case
    chosen = [row for row in chosen if None not in row]
    filled = np.zeros(words, np.uint64)
    for half in (chosen[::2], chosen[1::2]):
        add(filled, batch(schema, half).columns)
    passing = KeyFilter(schema=schema, words=CarriedBytes(filled.tobytes())).holds(batch(schema, rows))

    assert [row for row, passes in zip(rows, passing, strict=True) if row in chosen and not passes] == []
    assert [row for row, passes in zip(rows, passing, strict=True) if None in row and passes] == []
    sliced = KeyFilter(schema=schema, words=CarriedBytes(filled.tobytes())).holds(batch(schema, rows).slice(len(rows) // 3))
    assert sliced.tolist() == passing.tolist()[len(rows) // 3 :]


@pytest.mark.parametrize(
    ("bits", "most"), [(12, 0.015), (4, 0.25)], ids=["as many bits as a key should have", "as few as are of any use"]
)
@pytest.mark.parametrize(
    "made",
    [
        lambda numbers: pa.array(numbers * 2, pa.int64()),
        lambda numbers: pa.array(numbers, pa.int32()).cast(pa.date32()),
        lambda numbers: pa.array([f"customer-{number:012d}" for number in numbers.tolist()]),
        lambda numbers: pa.array([f"{'long ' * 80}{number}" for number in numbers.tolist()]),
        lambda numbers: pa.array(numbers, pa.int64()).cast(pa.decimal128(20, 0)),
    ],
    ids=["longs", "days", "texts", "long texts", "decimals"],
)
def test_of_other_keys_few_pass(made, bits, most):
    inside, outside = made(np.arange(50_000)), made(np.arange(50_000, 150_000))
    words = np.zeros(50_000 * bits // 64, np.uint64)
    add(words, [inside])

    assert key_filter.held(words, [inside]).all()
    assert key_filter.held(words, [outside]).mean() < most


def test_batches_whose_columns_hold_nothing_give_nothing():
    schema = pa.schema([("t", pa.string()), ("n", pa.int64())])
    kept = KeyFilter(schema=schema, words=CarriedBytes(np.full(4, -1, np.int64).tobytes()))
    nulls = pa.RecordBatch.from_arrays([pa.nulls(3, pa.string()), pa.nulls(3, pa.int64())], schema=schema)

    assert kept.holds(nulls).tolist() == [False] * 3
    assert kept.holds(nulls.slice(3)).tolist() == []


@pytest.mark.parametrize(
    ("allowed", "shareable", "most"),
    [
        (None, sys.maxsize, 67_000_000),
        ("1g", sys.maxsize, 67_000_000),
        ("64m", sys.maxsize, 8_300_000),
        ("0", sys.maxsize, 67_000_000),
        (None, 4_000_000, 8_000_000),
    ],
)
def test_a_filter_suits_as_many_keys_as_leave_it_four_bits_for_each(allowed, shareable, most):
    session = SimpleNamespace(conf={} if allowed is None else {"spark.driver.maxResultSize": allowed})
    assert key_filter.suits(session, most, shareable)
    assert not key_filter.suits(session, most * 102 // 100, shareable)
