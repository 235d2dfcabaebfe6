"""Spark's hash of strings, which assigns the actions of a multi-part checkpoint to its parts.

It is Murmur3 (x86, 32 bits) with seed 42, except that each of the last one to three bytes is mixed in like a whole word.
PROTOCOL.md requires it in "Multi-part checkpoint", so that concurrent writers put the same actions into the same part.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

SEED = 42
_WORD = 4


def part_numbers(paths: pa.Array, deletion_vectors: pa.Array, parts: int) -> pa.Array:
    """The part of each file action, counted from 0.

    Args:
        paths: Paths as in the log; null for an action that is not about a file.
        deletion_vectors: Unique ids of the deletion vectors; null for a file without one.
        parts: Number of parts.
    """
    seeds = pa.repeat(pa.scalar(SEED, pa.uint32()), len(paths))
    hashes = spark_hash(deletion_vectors, spark_hash(paths, seeds)).view(pa.int32()).cast(pa.int64())
    rest = pc.subtract(hashes, pc.multiply(pc.divide(hashes, parts), parts))
    return pc.if_else(pc.less(rest, 0), pc.add(rest, parts), rest)


def spark_hash(texts: pa.Array, seeds: pa.Array) -> pa.Array:
    """The hash of each text (uint32); a null text returns its seed."""
    data = texts.cast(pa.binary())
    sizes = pc.fill_null(pc.binary_length(data), 0)
    longest = pc.max(sizes).as_py() or 0
    aligned = pc.bit_wise_and(sizes, ~(_WORD - 1))
    hashes = seeds
    for start in range(0, longest, _WORD):
        hashes = _mixed(hashes, data, pc.greater(aligned, start), start, start + _WORD)
    rest = pc.subtract(sizes, aligned)
    for count in range(1, _WORD):
        for before_end in range(count, 0, -1):
            hashes = _mixed(hashes, data, pc.equal(rest, count), -before_end, -before_end + 1 or None)
    return pc.if_else(texts.is_valid(), _finished(hashes, sizes.cast(pa.uint32())), seeds)


def _mixed(hashes: pa.Array, data: pa.Array, where: pa.Array, start: int, stop: int | None) -> pa.Array:
    """The hashes, with these bytes of the text mixed in where ``where`` is true: a little-endian word, or one signed byte."""
    if not pc.any(where).as_py():
        return hashes
    piece = pc.binary_slice(data.filter(where), start, stop)
    if stop is not None and stop - start == _WORD:
        words = piece.cast(pa.binary(_WORD)).view(pa.uint32())
    else:
        words = piece.cast(pa.binary(1)).view(pa.int8()).cast(pa.int32()).view(pa.uint32())
    words = _times(_rotated(_times(words, 0xCC9E2D51), 15), 0x1B873593)
    mixed = _rotated(pc.bit_wise_xor(hashes.filter(where), words), 13)
    return pc.replace_with_mask(hashes, where, pc.add(_times(mixed, 5), pa.scalar(0xE6546B64, pa.uint32())))


def _finished(hashes: pa.Array, sizes: pa.Array) -> pa.Array:
    hashes = _folded(pc.bit_wise_xor(hashes, sizes), 16)
    return _folded(_times(_folded(_times(hashes, 0x85EBCA6B), 13), 0xC2B2AE35), 16)


def _times(values: pa.Array, factor: int) -> pa.Array:
    return pc.multiply(values, pa.scalar(factor, pa.uint32()))  # overflow wraps around, as intended


def _rotated(values: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_or(
        pc.shift_left(values, pa.scalar(bits, pa.uint32())), pc.shift_right(values, pa.scalar(32 - bits, pa.uint32()))
    )


def _folded(values: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(values, pc.shift_right(values, pa.scalar(bits, pa.uint32())))
