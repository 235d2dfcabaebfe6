"""Partition columns of rows that Spark's own reader reads, as expressions over the name of a row's file.

The log says which values a file has; paths say nothing. Spark decides a condition about the file alone once for each file,
before it opens any: so a condition on partition columns leaves out files wherever it stands, in any kind of session.

A file is found by the hash of its path in a table of two levels without collisions (Fredman, Komlós, Szemerédi), so that a row
costs the same however many files there are.
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
"""Slots of a bucket, and of all for each path: only paths that are made to collide need more."""
_KEYS = ("", "0", "1", "2")


def partition_columns(
    path: Column, paths: Sequence[str], values: Mapping[str, pa.Array], shown: Mapping[str, spark_types.StructField]
) -> Iterator[Column]:
    """For each partition column the values of the rows.

    Args:
        path: A row's file; an error where it is none of these.
        paths: The files, each once; at least one.
        values: Of each of them, by column.
        shown: The columns as the DataFrame shows them, by the same names.
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

    A bucket has the hashes with the same low bits, and as many slots as it needs for the remainders of the high bits to differ.

    Attributes:
        key: What is hashed before the path.
        low_bits: How many bits number the buckets.
        starts: Where the slots of each bucket begin, and where those of the last one end.
        files: The number of the file in each slot, or ``NO_FILE``.
        hashes: The hash of its path, signed; no hash where there is no file.
    """

    key: str
    low_bits: int
    starts: Sequence[int]
    files: Sequence[int]
    hashes: Sequence[int]

    @classmethod
    def of(cls, paths: Sequence[str]) -> HashedFiles | None:
        """Those of these paths; None where they are made to collide."""
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
        """The slot of a path, where it is one of these."""
        found, starts = self.hash_of(path), _numbers(self.starts)
        bucket = found.bitwiseAND(F.lit((1 << self.low_bits) - 1))
        return starts[bucket] + F.shiftrightunsigned(found, self.low_bits) % (starts[bucket + 1] - starts[bucket])


def _numbers(numbers: Iterable[int], kind: str = "int") -> Column:
    """A constant array: of a text, as a column for each of its members would take Spark long to understand."""
    return F.split(F.lit(",".join(map(str, numbers))), ",").cast(f"array<{kind}>")


def _value(values: pa.Array, number: Column, kind: spark_types.DataType) -> Column:
    """One of these values, none of which is NULL; NULL where the number is none of theirs."""
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
    """A constant array, as ``_numbers``."""
    separators = (f"\x1f{number}\x1f" for number in itertools.count())
    separator = next(separator for separator in separators if separator.join(texts).split(separator) == list(texts))
    return F.split(F.lit(separator.join(texts)), separator)
