"""Which rows share a file: a k-d tree built from a sample, and what its leaves let queries skip."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.spark.optimize.ordered_values import OrderedColumn
from airflow_delta.spark.optimize.partition_tree import build_partition_tree


def files_of(columns, files, *, buckets_per_file=1, sample=slice(None)):
    """The file of each row, as a rewrite computes it from a sample of the rows."""
    batch = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    ordered = [OrderedColumn.of(batch, (name,)) for name in batch.schema.names]
    sampled = [OrderedColumn(values=column.values[sample], is_null=column.is_null[sample]) for column in ordered]
    distinct, codes = zip(*(column.distinct() for column in sampled), strict=True)
    tree = build_partition_tree(codes, files, buckets_per_file)
    cuts = [tree.begins(number) for number in range(len(columns))]
    begins = [values[cut - 1] for values, cut in zip(distinct, cuts, strict=True)]
    recoded = tree.with_codes(cuts)
    buckets = recoded.buckets_of([column.codes(begin) for column, begin in zip(ordered, begins, strict=True)], batch.num_rows)
    assert buckets.max() < tree.buckets
    return np.unique(buckets // buckets_per_file, return_inverse=True)[1]


def skipped(values, files):
    """The share of files that an equality with the value of any row skips, on average."""
    count = files.max() + 1
    low, high = np.full(count, values.max()), np.full(count, values.min())
    np.minimum.at(low, files, values)
    np.maximum.at(high, files, values)
    wanted = values[:: max(1, len(values) // 500)]
    return 1 - np.mean((low <= wanted[:, None]) & (wanted[:, None] <= high))


def uniform(rows, seed):
    return np.random.default_rng(seed).integers(0, 1 << 31, rows)


def zipf(rows, seed):
    return np.minimum(np.random.default_rng(seed).zipf(1.5, rows), 1 << 31)


@pytest.mark.parametrize(("values", "average", "worst"), [(uniform, 0.68, 0.64), (zipf, 0.64, 0.60)])
def test_of_120_files_an_equality_skips_nearly_as_many_as_can_be(values, average, worst):
    columns = [values(100_000, seed) for seed in range(4)]
    files = files_of([pa.array(column) for column in columns], 120, sample=slice(0, 60_000))
    skips = [skipped(column, files) for column in columns]
    assert (np.mean(skips) > average, min(skips) > worst) == (True, True)
    sizes = np.bincount(files) * 120 / 100_000
    assert (sizes.min() > 0.4, sizes.max() < 1.8) == (True, True)


def test_one_column_is_sorted_into_equal_files():
    values = uniform(20_000, 1)
    files = files_of([pa.array(values)], 10)
    bounds = [(values[files == file].min(), values[files == file].max()) for file in range(10)]
    assert all(high < low for (_, high), (low, _) in pairwise(bounds))
    assert np.bincount(files).tolist() == [2_000] * 10


def test_nulls_share_files_and_equal_rows_are_spread_over_files():
    values = pa.array([None] * 600 + list(range(400)))
    files = files_of([values], 10)
    assert not set(files[:600]) & set(files[600:])
    few = files_of([pa.array([None] * 900 + list(range(100)))], 2)
    assert not set(few[:900]) & set(few[900:])
    assert max(np.bincount(files)) <= 150
    assert np.bincount(files_of([pa.array(["x"] * 100)], 4)).tolist() == [25] * 4


def test_frequent_values_are_not_cut_apart():
    values = np.random.default_rng(0).choice([1, 2, 3, 4, 5], 10_000, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    files = files_of([pa.array(values), pa.array(uniform(10_000, 1))], 10)
    assert skipped(values, files) > 0.5


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.integers(-3, 3),
            st.none() | st.floats(),
            st.none() | st.text(max_size=40),
            st.none() | st.decimals(-5, 5, places=2),
            st.none() | st.dates(),
        ),
        min_size=1,
        max_size=60,
    ),
    files=st.integers(1, 9),
    buckets_per_file=st.integers(1, 3),
)
def test_rows_of_any_values_find_a_file(rows, files, buckets_per_file):
    types = [pa.int64(), pa.float64(), pa.string(), pa.decimal128(10, 2), pa.date32()]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
    assert len(files_of(columns, files, buckets_per_file=buckets_per_file, sample=slice(0, None, 2))) == len(rows)
