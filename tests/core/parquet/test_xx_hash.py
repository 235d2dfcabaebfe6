import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.parquet.xx_hash import MOST_BYTES, hashes

MOST = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)


def rotated(number, bits):
    return (number << bits | number >> 64 - bits) & MOST


def rounded(total, lane):
    return rotated((total + lane * P2) & MOST, 31) * P1 & MOST


def reference(content):
    """XXH64 of one value, by the steps of its specification."""
    rest = content
    if len(content) >= 32:
        sums = [(P1 + P2) & MOST, P2, 0, -P1 & MOST]
        while len(rest) >= 32:
            sums = [rounded(total, lane) for total, lane in zip(sums, struct.unpack("<4Q", rest[:32]), strict=True)]
            rest = rest[32:]
        mixed = sum(rotated(total, bits) for total, bits in zip(sums, (1, 7, 12, 18), strict=True)) & MOST
        for total in sums:
            mixed = ((mixed ^ rounded(0, total)) * P1 + P4) & MOST
    else:
        mixed = P5
    mixed = mixed + len(content) & MOST
    while len(rest) >= 8:
        mixed = (rotated(mixed ^ rounded(0, int.from_bytes(rest[:8], "little")), 27) * P1 + P4) & MOST
        rest = rest[8:]
    if len(rest) >= 4:
        mixed = (rotated(mixed ^ int.from_bytes(rest[:4], "little") * P1 & MOST, 23) * P2 + P3) & MOST
        rest = rest[4:]
    for byte in rest:
        mixed = rotated(mixed ^ byte * P5 & MOST, 11) * P1 & MOST
    mixed = (mixed ^ mixed >> 33) * P2 & MOST
    mixed = (mixed ^ mixed >> 29) * P3 & MOST
    return mixed ^ mixed >> 32


def test_the_vectors_that_the_authors_publish():
    values = [b"", b"a", b"abc", b"Nobody inspects the spammish repetition"]
    assert hashes(pa.array(values)).to_pylist() == [
        0xEF46DB3751D8E999,
        0xD24EC4F1A98C6E5B,
        0x44BC2CF5AD770999,
        0xFBCEA83C8A378BF1,
    ]


@given(st.lists(st.none() | st.binary(max_size=100), max_size=20), st.integers(0, 3))
def test_values_of_any_lengths_beside_each_other_are_hashed_as_one_by_one(values, first):
    column = pa.array(values, pa.binary()).slice(first)
    assert hashes(column).to_pylist() == [None if value is None else reference(value) for value in values[first:]]


@given(st.lists(st.none() | st.integers(0, (1 << 32) - 1), max_size=20))
def test_numbers_are_hashed_as_their_bytes_from_the_lowest_on(numbers):
    for width in (32, 64):
        expected = [None if number is None else reference(number.to_bytes(width // 8, "little")) for number in numbers]
        assert hashes(pa.array(numbers, pa.uint32() if width == 32 else pa.uint64())).to_pylist() == expected


def test_a_value_that_would_take_long_is_refused_and_never_counts_as_null():
    assert len(hashes(pa.array([bytes(MOST_BYTES)]))) == 1
    with pytest.raises(ValueError, match="513 bytes"):
        hashes(pa.array([b"a", bytes(MOST_BYTES + 1)]))
