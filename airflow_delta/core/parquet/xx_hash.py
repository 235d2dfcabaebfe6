"""XXH64 of all values of a column at once: the hash function of Parquet's Bloom filters.

Specification: Cyan4973/xxHash, doc/xxhash_spec.md, "XXH64 algorithm description"; the seed is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

MOST_BYTES: Final = 512
"""Longer values are not hashed: the work grows with the length, and such values are rarely looked up."""

Lane: TypeAlias = Callable[[int, int], pa.UInt64Array]
"""Reads, from every value, a number of bytes from an offset on, as an integer."""

_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE, _WORD, _HALF = 32, 8, 4
_MOST = 1 << 64
_UNSIGNED = {1: pa.uint8(), _HALF: pa.uint32(), _WORD: pa.uint64()}


def hashes(values: pa.Array) -> pa.UInt64Array:
    """The hash of each value; NULL where the value is NULL.

    Args:
        values: ``uint32`` or ``uint64``, hashed as little-endian bytes, or ``binary``.

    Raises:
        ValueError: A value is longer than ``MOST_BYTES``.
    """
    if not pa.types.is_binary(values.type):
        whole = values.cast(pa.uint64())
        return _hashed(values.type.bit_width // 8, len(values), lambda _offset, _width: whole)
    sizes = pc.binary_length(values)
    if (longest := pc.max(sizes).as_py() or 0) > MOST_BYTES:
        raise ValueError(f"a value of {longest} bytes is not hashed: {MOST_BYTES} are the most")
    rows, found = [pa.array([], pa.uint64())], [pa.array([], pa.uint64())]
    for size in pc.unique(sizes.drop_null()).to_pylist():
        alike = pc.indices_nonzero(pc.equal(sizes, size))
        rows.append(alike)
        found.append(_hashed(size, len(alike), _lanes(values.take(alike))))
    every = pa.concat_arrays(found)
    return every.take(pc.index_in(pa.array(range(len(values)), pa.uint64()), pa.concat_arrays(rows)))


def _lanes(values: pa.Array) -> Lane:
    """The lanes of values of equal length."""

    def lane(offset: int, width: int) -> pa.UInt64Array:
        parts = pc.binary_slice(values, offset, offset + width).cast(pa.binary(width))
        return parts.view(_UNSIGNED[width]).cast(pa.uint64())

    return lane


def _hashed(size: int, count: int, lane: Lane) -> pa.UInt64Array:
    """The hashes of ``count`` values, each of ``size`` bytes."""
    one, two, three, four, five = _PRIMES
    at = 0
    if size >= _STRIPE:
        seeds = (one + two, two, 0, -one)
        sums = [pa.repeat(_number(seed), count) for seed in seeds]
        while at + _STRIPE <= size:
            sums = [_round(total, lane(at + _WORD * number, _WORD)) for number, total in enumerate(sums)]
            at += _STRIPE
        mixed = _plus(*(_rotated(total, bits) for total, bits in zip(sums, (1, 7, 12, 18), strict=True)))
        for total in sums:
            mixed = _plus(_times(_xor(mixed, _round(_number(0), total)), one), _number(four))
    else:
        mixed = pa.repeat(_number(five), count)
    mixed = _plus(mixed, _number(size))
    for _ in range((size - at) // _WORD):
        mixed = _plus(_times(_rotated(_xor(mixed, _round(_number(0), lane(at, _WORD))), 27), one), _number(four))
        at += _WORD
    if size - at >= _HALF:
        mixed = _plus(_times(_rotated(_xor(mixed, _times(lane(at, _HALF), one)), 23), two), _number(three))
        at += _HALF
    for position in range(at, size):
        mixed = _times(_rotated(_xor(mixed, _times(lane(position, 1), five)), 11), one)
    for bits, prime in ((33, two), (29, three)):
        mixed = _times(_xor(mixed, _shifted(mixed, bits)), prime)
    return _xor(mixed, _shifted(mixed, 32))


def _round(total: pa.UInt64Array | pa.Scalar, lane: pa.UInt64Array) -> pa.UInt64Array:
    return _times(_rotated(_plus(total, _times(lane, _PRIMES[1])), 31), _PRIMES[0])


def _number(value: int) -> pa.Scalar:
    return pa.scalar(value % _MOST, pa.uint64())


def _plus(first: pa.UInt64Array, *others: pa.UInt64Array | pa.Scalar) -> pa.UInt64Array:
    for other in others:
        first = pc.add(first, other)
    return first


def _times(numbers: pa.UInt64Array, factor: int) -> pa.UInt64Array:
    return pc.multiply(numbers, _number(factor))


def _xor(first: pa.UInt64Array, second: pa.UInt64Array) -> pa.UInt64Array:
    return pc.bit_wise_xor(first, second)


def _shifted(numbers: pa.UInt64Array, bits: int) -> pa.UInt64Array:
    return pc.shift_right(numbers, _number(bits))


def _rotated(numbers: pa.UInt64Array, bits: int) -> pa.UInt64Array:
    return pc.bit_wise_or(pc.shift_left(numbers, _number(bits)), _shifted(numbers, 64 - bits))
