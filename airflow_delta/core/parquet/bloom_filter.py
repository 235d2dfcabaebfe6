"""Parquet's Bloom filters (split block, XXH64), which show whether a column chunk may contain a value.

Specification: apache/parquet-format, BloomFilter.md, and BloomFilterHeader of src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.parquet.compact_protocol import I32, STRUCT, Field, read_struct_until, struct_bytes

MOST_FILTER_BYTES: Final = 8 << 20
"""Larger filters are neither read nor written: a filter of this size suffices for two million distinct values."""

MOST_HEADER_BYTES: Final = 64
"""Headers of all known writers take less than half of this."""

_NUM_BYTES, _ALGORITHM, _HASH, _COMPRESSION = 1, 2, 3, 4
_BLOCK_BYTES, _WORD_BYTES = 32, 8
_MAGIC_BYTES = 4
_WORDS = _BLOCK_BYTES // _WORD_BYTES
_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)


@dataclass(frozen=True, eq=False)
class Probes:
    """Values prepared for lookup: arrays of ``uint64`` with an element for each value, NULL for impossible values.

    Attributes:
        places: Selects the block of a value: the upper half of its hash.
        masks: For each word of the block, the bits that the value sets.
    """

    places: pa.UInt64Array
    masks: tuple[pa.UInt64Array, ...]

    @classmethod
    def of(cls, hashes: pa.UInt64Array) -> Probes:
        """The probes for values with these hashes (``xx_hash``)."""
        low = pc.bit_wise_and(hashes, _number((1 << 32) - 1)).cast(pa.uint32())
        bits = [_bit_of_lane(low, salt) for salt in _SALTS]
        pairs = zip(bits[::2], bits[1::2], strict=True)
        masks = tuple(pc.bit_wise_or(even, pc.shift_left(odd, _number(32))) for even, odd in pairs)
        return cls(pc.shift_right(hashes, _number(32)), masks)

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True, eq=False)
class BloomFilter:
    """The filter of a column chunk.

    Attributes:
        words: The bits as ``uint64``, four words to a block.
    """

    words: pa.UInt64Array

    @classmethod
    def parse(cls, content: bytes) -> BloomFilter:
        """Parse a filter, starting with its header.

        Raises:
            ValueError: The filter is of an unknown kind, too large or incomplete, or claims that the chunk is empty, which
                readers should not rely on.
        """
        size, start = filter_size(content)
        bits = pa.py_buffer(content[start : start + size])
        if bits.size < size:
            raise ValueError(f"a Bloom filter of {size} bytes, of which {bits.size} are there")
        words = pa.Array.from_buffers(pa.uint64(), size // _WORD_BYTES, [None, bits])
        if pc.max(words).as_py() == 0:
            raise ValueError("a Bloom filter without values")
        return cls(words)

    def holds(self, probes: Probes) -> pa.BooleanArray:
        """For each value whether the chunk may contain it; false for NULL."""
        blocks = len(self.words) // _WORDS
        first = pc.multiply(pc.shift_right(pc.multiply(probes.places, _number(blocks)), _number(32)), _number(_WORDS))
        found = (
            pc.equal(pc.bit_wise_and(self.words.take(pc.add(first, _number(number))), mask), mask)
            for number, mask in enumerate(probes.masks)
        )
        return pc.fill_null(reduce(pc.and_, found), False)


def filter_size(content: bytes) -> tuple[int, int]:
    """Size in bytes of a filter's bits, and their offset in the content, which begins with the header.

    Raises:
        ValueError: The header is of an unknown form, or the size is too large.
    """
    header, end = read_struct_until(content[:MOST_HEADER_BYTES])
    if _NUM_BYTES not in header or header[_NUM_BYTES].kind != I32:
        raise ValueError("a Bloom filter without size")
    size = header[_NUM_BYTES].value
    if content[:end] != _header(size):
        raise ValueError("a Bloom filter of an unknown kind")
    if not 0 < size <= MOST_FILTER_BYTES or size % _BLOCK_BYTES:
        raise ValueError(f"a Bloom filter of {size} bytes")
    return size, end


def read_filter(read_at: Callable[[int, int], bytes], start: int, length: int | None, end: int) -> bytes:
    """The bytes of a filter, header included; takes one request if the footer states its length, else two.

    Args:
        read_at: Reads (nbytes, offset) from the file.
        start: Offset of the filter, from the footer.
        length: Length in bytes, from the footer; None if it has none.
        end: Offset of the footer.

    Raises:
        ValueError: There is no filter at this place, or it has another length. Also whatever ``read_at`` raises.
    """
    if start < _MAGIC_BYTES or not 0 < (length or 1) <= min(MOST_HEADER_BYTES + MOST_FILTER_BYTES, end - start):
        raise ValueError(f"no Bloom filter can lie at {start}")
    if length is None:
        length = sum(filter_size(read_at(min(MOST_HEADER_BYTES, end - start), start)))
        if length > end - start:
            raise ValueError("the Bloom filter does not end")
    content = read_at(length, start)
    if sum(filter_size(content)) != length:
        raise ValueError("the Bloom filter is not as long as the footer says")
    return content


def _header(size: int) -> bytes:
    """The only supported header: split block, XXH64, uncompressed. Any other might place the bits elsewhere."""
    first = Field(STRUCT, {1: Field(STRUCT, {})})
    return struct_bytes({_NUM_BYTES: Field(I32, size), _ALGORITHM: first, _HASH: first, _COMPRESSION: first})


def _bit_of_lane(keys: pa.UInt32Array, salt: int) -> pa.UInt64Array:
    """The bit that each key sets in the 32-bit lane."""
    chosen = pc.shift_right(pc.multiply(keys, pa.scalar(salt, pa.uint32())), pa.scalar(27, pa.uint32()))
    return pc.shift_left(_number(1), chosen.cast(pa.uint64()))


def _number(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())
