"""Differences between Spark 4.0 and 4.3, detected by feature where possible, else by version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from airflow_delta.core.least_versions import is_at_least
from airflow_delta.spark.errors import SparkFeatureMissingError
from airflow_delta.spark.jvm import active_jvm, checkpointed, is_connect

_MIB, _GIB = 1 << 20, 1 << 30
_ASKED_FOR = {
    "spark.sql.session.localRelationChunkSizeRows": 10_000,
    "spark.sql.session.localRelationChunkSizeBytes": 16 * _MIB,
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": _GIB,
    "spark.sql.session.localRelationSizeLimit": 3 * _GIB,
}
"""Settings that a client reads before it sends rows (the first three since 4.1, the last since 4.2), with their defaults."""
_OBSERVED = "observed"
_HASH_SEED = 42
_WORD = 0xFFFFFFFF


def check_stream_source() -> None:
    """Return if Python data sources can limit the batches of a stream, which reading a table as a stream requires.

    Raises:
        SparkFeatureMissingError: They cannot.
    """
    if find_spec("pyspark.sql.streaming.datasource") is None:
        feature = "reading a table as a stream"
        raise SparkFeatureMissingError(feature=feature, version=pyspark.__version__, needed="4.2")


def suit_client(spark: SparkSession, server: str) -> None:
    """Let a Spark Connect client send rows to an older server, on which its ``createDataFrame`` would otherwise fail.

    Airflow's provider installs one version of the client, whatever version the server has.

    Args:
        spark: The session.
        server: The server's version, which the caller has requested once.
    """
    if not is_at_least(server, tuple(map(int, pyspark.__version__.split(".")[:2]))):
        for name, value in _ASKED_FOR.items():
            if spark.conf.get(name, None) is None:
                spark.conf.set(name, value)


def takes_layout_as_option(spark: SparkSession) -> bool:
    """Whether the types in Parquet files can be set by write options; before 4.2 only by the session's settings.

    Spark: ``ParquetUtils.prepareWrite``.
    """
    return is_at_least(spark.version, (4, 2))


def keeps_data_source_reads(spark: SparkSession) -> bool:
    """Whether rows of a Python data source stay as first read; before 4.1 a new reader is created on each use.

    Spark: ``PythonDataSourceV2.getOrCreateReadInfo``.
    """
    return is_at_least(spark.version, (4, 1))


def opens_files_with_variants(spark: SparkSession) -> bool:
    """Whether Spark can open Parquet files with VARIANT columns, whatever columns are read; not before 4.1."""
    return is_at_least(spark.version, (4, 1))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects for these columns; timestamps are in UTC, which is an argument since 4.2."""
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def repartition_by_id(rows: DataFrame, partitions: int, column: Column) -> DataFrame:
    """The rows, each in the partition whose number (modulo ``partitions``) is in a column.

    Spark supports this since 4.1. For older versions, the number is replaced by one that hashes to that partition.

    Args:
        rows: The rows.
        partitions: Number of partitions.
        column: Integers, never NULL.
    """
    if _are_at_least(rows.sparkSession, (4, 1)):
        return rows.repartitionById(partitions, column)
    keys = F.expr(f"array({', '.join(str(_int_with_hash(number)) for number in range(partitions))})")
    return rows.repartition(partitions, keys[F.pmod(column, F.lit(partitions))])


def observe(rows: DataFrame, aggregates: Mapping[str, Column]) -> tuple[DataFrame, Callable[[], Mapping[str, Any]]]:
    """The rows, and a function that returns aggregates over them, by name, after an action on the rows has ended.

    Before 4.1 Spark returns structs, and arrays of them, as Java objects; here they are always ``Row``s. Spark Connect may lose
    observations that arrive late, so with it the rows are cached, and aggregated in a second pass.
    """
    if not sends_observations(rows.sparkSession):
        kept = checkpointed(rows)
        return kept, partial(aggregated, kept, aggregates)
    observation = Observation()

    def observed() -> Mapping[str, Any]:
        row = observation.get[_OBSERVED]
        if not isinstance(row, Row):
            pickled = active_jvm().PythonSQLUtils.toPyRow(row)  # like Spark 4.1
            row = CPickleSerializer().loads(pickled)
        return dict(row.asDict(recursive=False))

    return rows.observe(observation, _struct(aggregates)), observed


def sends_observations(spark: SparkSession) -> bool:
    """Whether observations arrive: with Spark Connect, only if client and server are 4.1 or newer.

    An older server waits only a tenth of a second for them (``ExecuteThreadRunner``), and sends no structs.
    """
    return not is_connect(spark) or _are_at_least(spark, (4, 1))


def aggregated(rows: DataFrame, aggregates: Mapping[str, Column]) -> Mapping[str, Any]:
    """The aggregates as ``observe`` returns them, computed by an action of their own."""
    [[row]] = rows.agg(_struct(aggregates)).collect()
    return dict(row.asDict(recursive=False))


def _struct(aggregates: Mapping[str, Column]) -> Column:
    return F.struct(*(column.alias(name) for name, column in aggregates.items())).alias(_OBSERVED)


def _are_at_least(spark: SparkSession, least: tuple[int, int]) -> bool:
    """Whether Spark has at least this version; with Spark Connect, both client and server."""
    return all(is_at_least(version, least) for version in (str(spark.version), pyspark.__version__))


def _int_with_hash(wanted: int) -> int:
    """The int for which Spark's partitioning ``hash`` is ``wanted``: Murmur3 reversed."""
    word = _unshifted(wanted & _WORD, 16)
    word = _unshifted(_divided(word, 0xC2B2AE35), 13)
    word = _unshifted(_divided(word, 0x85EBCA6B), 16) ^ 4  # size of an int in bytes
    word = _rotated_right(_divided(word - 0xE6546B64, 5), 13) ^ _HASH_SEED
    word = _divided(_rotated_right(_divided(word, 0x1B873593), 15), 0xCC9E2D51)
    return word - (1 << 32) if word >> 31 else word


def _divided(word: int, factor: int) -> int:
    return word * pow(factor, -1, 1 << 32) & _WORD


def _unshifted(word: int, bits: int) -> int:
    """The word whose ``x ^ (x >> bits)`` is ``word``."""
    return word ^ word >> bits ^ word >> 2 * bits


def _rotated_right(word: int, bits: int) -> int:
    return word >> bits | word << 32 - bits & _WORD
