"""Partition columns of rows read by Spark's own reader, as expressions over the path of a row's file.

The log determines the values of a file; its path does not matter. Spark evaluates conditions that only depend on the file once
for each file, before opening any: so a condition on partition columns skips files wherever it occurs, in any kind of session.

A file is looked up by the hash of its path in a two-level table without collisions (Fredman, Komlós, Szemerédi), so that the
cost for a row does not depend on the number of files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql import types as spark_types

from airflow_delta.core.operations.checkpoints.spark_hash import SEED, spark_hash

NO_FILE = -1
_NO_HASH = 1 << 32
_MAX_BUCKET, _MOST_SLOTS = 1 << 10, 16
"""Most slots of a bucket, and most slots for each path; only maliciously chosen paths need more."""
_KEYS = ("", "0", "1", "2")


def partition_columns(
    path: Column, paths: Sequence[str], values: Mapping[str, pa.Array], shown: Mapping[str, spark_types.StructField]
) -> Iterator[Column]:
    """The values of each partition column for the rows.

    Args:
        path: The path of a row's file; an unknown path is an error.
        paths: The files, each once; at least one.
        values: The value for each file, by column.
        shown: The columns in the DataFrame's schema, by the same names.
    """
    hashed = HashedFiles.of(paths)
    if hashed is None:
        files: Sequence[int] = range(len(paths))
        slot = F.array_position(_texts(paths), path).cast("int") - 1
        is_known = slot >= 0
    else:
        files, slot = hashed.files, hashed.at(path)
        is_known = _numbers(hashed.hashes, "bigint")[slot] == hashed.hash_of(path)
    unknown = F.raise_error(F.concat(F.lit("no partition values are known for "), path))
    for name, array in values.items():
        column, encoded = shown[name], array.dictionary_encode()
        numbers = [NO_FILE if number is None else number for number in encoded.indices.to_pylist()]
        number = F.get(_numbers(NO_FILE if file == NO_FILE else numbers[file] for file in files), slot)
        value = _value(encoded.dictionary, number, column.dataType)
        yield F.when(is_known, value).otherwise(unknown).alias(name, metadata=column.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedFiles:
    """Files by the hashes of their paths.

    A bucket has the hashes with the same low bits, and as many slots as are needed for the high bits to have different
    remainders.

    Attributes:
        key: A prefix for hashing.
        low_bits: Number of bits that select the bucket.
        starts: First slot of each bucket, and the end of the last bucket.
        files: The index of the file in each slot, or ``NO_FILE``.
        hashes: The signed hash of the path in each slot; a value that is no hash for empty slots.
    """

    key: str
    low_bits: int
    starts: Sequence[int]
    files: Sequence[int]
    hashes: Sequence[int]

    @classmethod
    def of(cls, paths: Sequence[str]) -> HashedFiles | None:
        """The table for these paths; None if they were maliciously chosen to collide."""
        texts = pa.array(paths, pa.string())
        for key in _KEYS:
            seeds = spark_hash(pa.array([key]), pa.array([SEED], pa.uint32()))
            hashes = spark_hash(texts, pa.repeat(seeds[0], len(texts))).view(pa.int32()).to_pylist()
            if len(set(hashes)) == len(hashes) and (found := cls._placed(key, hashes)) is not None:
                return found
        return None

    @classmethod
    def _placed(cls, key: str, hashes: Sequence[int]) -> HashedFiles | None:
        low_bits = max(1, len(hashes) - 1).bit_length()
        buckets: list[list[int]] = [[] for _ in range(1 << low_bits)]
        for file, number in enumerate(hashes):
            buckets[number & (1 << low_bits) - 1].append(file)
        starts, files = [0], list[int]()
        for bucket in buckets:
            highs = [(hashes[file] & 0xFFFFFFFF) >> low_bits for file in bucket]
            sizes = range(max(1, len(bucket)), _MAX_BUCKET)
            size = next((size for size in sizes if len({high % size for high in highs}) == len(bucket)), None)
            if size is None or len(files) > _MOST_SLOTS * len(hashes):
                return None
            slots = dict.fromkeys(range(size), NO_FILE)
            slots |= {high % size: file for high, file in zip(highs, bucket, strict=True)}
            files += slots.values()
            starts.append(len(files))
        placed = [_NO_HASH if file == NO_FILE else hashes[file] for file in files]
        return cls(key=key, low_bits=low_bits, starts=starts, files=files, hashes=placed)

    def hash_of(self, path: Column) -> Column:
        """The hash of a path."""
        return F.hash(F.lit(self.key), path)

    def at(self, path: Column) -> Column:
        """The slot of a path, if the path is known."""
        found, starts = self.hash_of(path), _numbers(self.starts)
        bucket = found.bitwiseAND(F.lit((1 << self.low_bits) - 1))
        return starts[bucket] + F.shiftrightunsigned(found, self.low_bits) % (starts[bucket + 1] - starts[bucket])


def _numbers(numbers: Iterable[int], kind: str = "int") -> Column:
    """A constant array, parsed from a text: as an array of literal columns, Spark would take long to analyze it."""
    return F.split(F.lit(",".join(map(str, numbers))), ",").cast(f"array<{kind}>")


def _value(values: pa.Array, number: Column, kind: spark_types.DataType) -> Column:
    """The value with this index, none of which is NULL; NULL for an index that is out of range."""
    if not len(values):
        return F.lit(None).cast(kind)
    if pa.types.is_binary(values.type):
        return F.unhex(F.get(_texts([value.hex() for value in values.to_pylist()]), number))
    texts = _texts(values.cast(pa.string()).to_pylist())
    if not isinstance(kind, spark_types.StringType):
        return F.get(texts.cast(spark_types.ArrayType(kind)), number)
    text = F.get(texts, number)
    return text if kind == spark_types.StringType() else F.collate(text, kind.collation)


def _texts(texts: Sequence[str]) -> Column:
    """A constant array of strings, like ``_numbers``."""
    separators = (f"\x1f{number}\x1f" for number in itertools.count())
    separator = next(separator for separator in separators if separator.join(texts).split(separator) == list(texts))
    return F.split(F.lit(separator.join(texts)), separator)
