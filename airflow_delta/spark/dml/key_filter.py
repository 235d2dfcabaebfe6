"""A Bloom filter of bounded size for the keys of a source, if there are too many keys for every worker to hold.

Every key of the source passes; of other keys, about one in a hundred does, or one in five if there are so many keys that the
filter has only four bits for each. A key sets a few bits of a single word, so that a lookup takes one memory access.

Keys are equal if their bytes are: integers, dates, timestamps, decimals of the same type, strings without collation, binary.

Workers import this module, so it does not import the predicate parser.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.spark.io.shared_bytes import AtEnd, SharedBytes, share
from airflow_delta.spark.io.worker_values import typed_worker_errors, with_typed_errors
from airflow_delta.spark.session import result_bytes
from airflow_delta.spark.worker_code import map_in_arrow

_BITS_OF_KEY = 12
_LEAST_BITS = 4
_MAX_BYTES = 32 << 20
_WORD_BYTES = 8
_BITS = 5
"""Most bits of its word that a key sets; each is selected by six bits of the hash."""
_MOST_TASKS = 4
"""Most tasks; each of them sends a filter to the driver."""
_MOST_HASHES = 1 << 24
"""Up to this many keys, their hashes are sent to the driver: 128 MiB."""
_MOST_KEY_BYTES = 8 * _MOST_HASHES
"""Up to this many bytes, fixed-width keys themselves are sent to the driver, which is faster than Spark's Python workers."""
_MOST_PARTS = 32
"""Of a longer string, only this many parts and its length are hashed."""

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFilter:
    """Tells whether a source may have a key.

    Attributes:
        schema: The key columns, named as the target's, in the types in which they are compared.
        words: The filter, as 64-bit words.
        are_keys_unique: Whether certainly no key was added twice.
    """

    schema: pa.Schema
    words: SharedBytes
    are_keys_unique: bool = False

    def holds(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """For each row, whether its key may be one of the source's; false for a key with NULL."""
        return held(np.frombuffer(self.words.value, np.uint64), [rows.column(key.name).cast(key.type) for key in self.schema])


def suits(spark: SparkSession, keys: int, shareable: int) -> bool:
    """Whether a filter of the greatest size is still selective for this many keys.

    Args:
        spark: The session.
        keys: Number of keys.
        shareable: Most bytes of a filter that can be sent to workers.
    """
    return keys * _LEAST_BITS <= _most_bytes(spark, shareable) * 8


def _most_bytes(spark: SparkSession, shareable: int) -> int:
    """Most bytes of a filter; with those of all tasks it leaves half of the driver's result size for the hashes."""
    return min(_MAX_BYTES, shareable, result_bytes(spark) // (2 * _MOST_TASKS))


def build(keys: DataFrame, schema: pa.Schema, rows: int, shareable: int, at_end: AtEnd) -> KeyFilter:
    """Build the filter of these keys in Python workers, or in the driver if the keys are no larger than their hashes.

    Args:
        keys: Columns in the order of ``schema``; no NULLs.
        schema: As in ``KeyFilter``.
        rows: Approximate number of keys.
        shareable: As of ``suits``.
        at_end: As of ``share``, to release what workers share of the filter.
    """
    most = result_bytes(keys.sparkSession)
    words = max(1, min(rows * _BITS_OF_KEY, _most_bytes(keys.sparkSession, shareable) * 8) // (_WORD_BYTES * 8))
    is_counted = rows <= min(_MOST_HASHES, most // 2 // _WORD_BYTES)
    builder = _Builder(schema=schema, words=words, gives_hashes=is_counted)
    with typed_worker_errors():
        if rows * _width(schema) <= min(_MOST_KEY_BYTES, most):
            parts = pa.Table.from_batches(builder(iter(keys.toArrow().to_batches())))
        else:
            parts = map_in_arrow(keys.coalesce(_MOST_TASKS), builder, "words binary, hashes binary").toArrow()
    merged = reduce(np.bitwise_or, _arrays(parts["words"]), np.zeros(words, np.uint64))
    # Different hashes mean different keys. Equal hashes prove nothing, but different keys hardly ever have them.
    is_unique = is_counted and _are_unique(np.concatenate([*_arrays(parts["hashes"]), np.array([], np.uint64)]))
    return KeyFilter(schema=schema, words=share(keys.sparkSession, merged.tobytes(), at_end), are_keys_unique=is_unique)


def _width(schema: pa.Schema) -> float:
    """Bytes of a key; infinite for keys of variable length."""
    is_fixed = all(pa.types.is_primitive(key.type) or pa.types.is_decimal(key.type) for key in schema)
    return sum(key.type.bit_width for key in schema) / 8 if is_fixed else math.inf


def _arrays(values: pa.ChunkedArray) -> Iterator[Words]:
    return (np.frombuffer(value.as_buffer(), np.uint64) for value in values)


def _are_unique(hashes: Words) -> bool:
    hashes.sort()
    return not np.any(hashes[1:] == hashes[:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    """Turns a partition of keys into their filter, and their hashes if wanted."""

    schema: pa.Schema
    words: int
    gives_hashes: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        return with_typed_errors(self._filter(batches))

    def _filter(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        words = np.zeros(self.words, np.uint64)
        hashes: list[Words] = []
        for batch in batches:
            added = add(words, [column.cast(key.type) for column, key in zip(batch.columns, self.schema, strict=True)])
            hashes += [added] if self.gives_hashes else []
        found = np.concatenate(hashes) if hashes else np.array([], np.uint64)
        columns = {"words": words, "hashes": found}
        yield pa.RecordBatch.from_pydict({name: pa.array([array.tobytes()], pa.binary()) for name, array in columns.items()})


def add(words: Words, keys: Sequence[pa.Array]) -> Words:
    """Add keys to a filter and return their hashes. The keys must not contain NULL: a key with NULL equals no other key."""
    hashes = _hashes(keys)
    places, masks = _places(hashes, len(words))
    np.bitwise_or.at(words, places, masks)
    return hashes


def held(words: Words, keys: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """For each key, whether it may have been added."""
    places, masks = _places(_hashes(keys), len(words))
    found: npt.NDArray[np.bool_] = words[places] & masks == masks
    for column in keys:
        if column.null_count:
            found &= column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _hashes(keys: Sequence[pa.Array]) -> Words:
    return reduce(_with_column, keys, np.zeros(len(keys[0]), np.uint64)) if len(keys[0]) else np.array([], np.uint64)


def _places(hashes: Words, words: int) -> tuple[npt.NDArray[np.int64], Words]:
    """For each key, its word (from the upper half of its hash) and the bits that it sets there (from the lower half)."""
    masks = reduce(np.bitwise_or, (_bit(hashes >> np.uint64(6 * number) & np.uint64(63)) for number in range(_BITS)))
    return ((hashes >> 32) * words >> 32).astype(np.int64), masks


def _bit(numbers: Words) -> Words:
    return np.left_shift(np.uint64(1), numbers)


def _with_column(hashes: Words, column: pa.Array) -> Words:
    """The hashes extended by another key column; arbitrary where that is NULL."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _with_texts(hashes, column)
    _, values = column.buffers()
    width = column.type.bit_width // 32
    parts = np.frombuffer(values or b"", np.uint32, len(column) * width, column.offset * width * 4).reshape(-1, width)
    if width == 1:
        return _mixed(hashes ^ parts[:, 0])
    for part in np.ascontiguousarray(parts).view(np.uint64).T:
        hashes = _mixed(hashes ^ part)
    return hashes


def _with_texts(hashes: Words, column: pa.Array) -> Words:
    """Hash eight bytes of all strings at a time; bytes beyond a string's end are masked."""
    _, offsets, values = column.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    first, lengths = bounds[0], np.diff(bounds)
    hashes = _mixed(hashes ^ lengths.view(np.uint64))
    content = bytes((values or b"")[first : bounds[-1]]) + bytes(_WORD_BYTES)
    unaligned = np.ndarray((len(content) - _WORD_BYTES + 1,), "<u8", content, strides=(1,))
    strides = _WORD_BYTES * -(-lengths // (_WORD_BYTES * _MOST_PARTS))
    for number in range(_MOST_PARTS):
        rows = np.flatnonzero(strides * number < lengths)
        if not len(rows):
            break
        starts = strides[rows] * number
        parts = unaligned[bounds[rows] - first + starts] & _FIRST_BYTES[np.minimum(lengths[rows] - starts, _WORD_BYTES)]
        hashes[rows] = _mixed(hashes[rows] ^ parts)
    return hashes


_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(_WORD_BYTES + 1)], np.uint64)
"""Masks of the first bytes of a word, by number of bytes."""


_HALF = np.uint64(33)


def _mixed(hashes: Words) -> Words:
    """Each word with its bits mixed, like Murmur3's finalizer."""
    mixed = (hashes ^ hashes >> _HALF) * np.uint64(0xFF51AFD7ED558CCD)
    mixed = (mixed ^ mixed >> _HALF) * np.uint64(0xC4CEB9FE1A85EC53)
    return mixed ^ mixed >> _HALF
