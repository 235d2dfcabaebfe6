"""What Spark 4.0 to 4.3 do in different ways: found as a feature where possible, else by the version."""

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
"""What a client asks for before it sends rows, the first three from 4.1 on, the last from 4.2 on, and what servers answer."""
_OBSERVED = "observed"
_HASH_SEED = 42
_WORD = 0xFFFFFFFF


def check_stream_source() -> None:
    """Return if Python data sources can limit the batches of a stream, which a table as a source needs.

    Raises:
        SparkFeatureMissingError: They cannot.
    """
    if find_spec("pyspark.sql.streaming.datasource") is None:
        feature = "reading a table as a stream"
        raise SparkFeatureMissingError(feature=feature, version=pyspark.__version__, needed="4.2")


def suit_client(spark: SparkSession, server: str) -> None:
    """Let a client of Spark Connect send rows to a server that is older: else its ``createDataFrame`` fails there.

    Airflow's provider brings one version of the client, whatever version the server is of.

    Args:
        spark: The session.
        server: The server's version, which is asked for once.
    """
    if not is_at_least(server, tuple(map(int, pyspark.__version__.split(".")[:2]))):
        for name, value in _ASKED_FOR.items():
            if spark.conf.get(name, None) is None:
                spark.conf.set(name, value)


def takes_layout_as_option(spark: SparkSession) -> bool:
    """Whether the types in Parquet files can be chosen by options of a write; before 4.2 only the session's settings count.

    Spark: ``ParquetUtils.prepareWrite``.
    """
    return is_at_least(spark.version, (4, 2))


def keeps_data_source_reads(spark: SparkSession) -> bool:
    """Whether rows of a Python data source stay those first computed; before 4.1 its reader is made anew each time.

    Spark: ``PythonDataSourceV2.getOrCreateReadInfo``.
    """
    return is_at_least(spark.version, (4, 1))


def opens_files_with_variants(spark: SparkSession) -> bool:
    """Whether Spark opens Parquet files whose footers name the type VARIANT: not before 4.1, whatever columns are read."""
    return is_at_least(spark.version, (4, 1))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of the batches that Spark takes for these columns; times are in UTC, an argument from 4.2 on."""
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def repartition_by_id(rows: DataFrame, partitions: int, column: Column) -> DataFrame:
    """The rows, each in the partition of the number in a column, modulo ``partitions``.

    Spark has this from 4.1 on. Before that, the number is replaced by one whose hash leads to that partition.

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
    """The rows, and what returns the aggregates over them, by name, once an action on the rows has ended.

    Spark before 4.1 hands structs, and arrays of them, to Python as objects of Java; here each is a ``Row``. Over Spark Connect
    it loses what comes late: there the rows are kept, and looked at once more.
    """
    if not sends_observations(rows.sparkSession):
        kept = checkpointed(rows)
        return kept, partial(aggregated, kept, aggregates)
    observation = Observation()

    def observed() -> Mapping[str, Any]:
        row = observation.get[_OBSERVED]
        if not isinstance(row, Row):
            pickled = active_jvm().PythonSQLUtils.toPyRow(row)  # as Spark 4.1 does it
            row = CPickleSerializer().loads(pickled)
        return dict(row.asDict(recursive=False))

    return rows.observe(observation, _struct(aggregates)), observed


def sends_observations(spark: SparkSession) -> bool:
    """Whether what is observed arrives: over Spark Connect where client and server are of 4.1 or newer.

    An older server waits a tenth of a second for it (``ExecuteThreadRunner``), and sends no structs.
    """
    return not is_connect(spark) or _are_at_least(spark, (4, 1))


def aggregated(rows: DataFrame, aggregates: Mapping[str, Column]) -> Mapping[str, Any]:
    """As ``observe`` gives the aggregates, by an action of their own."""
    [[row]] = rows.agg(_struct(aggregates)).collect()
    return dict(row.asDict(recursive=False))


def _struct(aggregates: Mapping[str, Column]) -> Column:
    return F.struct(*(column.alias(name) for name, column in aggregates.items())).alias(_OBSERVED)


def _are_at_least(spark: SparkSession, least: tuple[int, int]) -> bool:
    """Whether Spark is of a version or newer: over Spark Connect, client and server."""
    return all(is_at_least(version, least) for version in (str(spark.version), pyspark.__version__))


def _int_with_hash(wanted: int) -> int:
    """The int that Spark's ``hash``, by which it partitions, maps to this one: Murmur3's steps backwards."""
    word = _unshifted(wanted & _WORD, 16)
    word = _unshifted(_divided(word, 0xC2B2AE35), 13)
    word = _unshifted(_divided(word, 0x85EBCA6B), 16) ^ 4  # bytes of an int
    word = _rotated_right(_divided(word - 0xE6546B64, 5), 13) ^ _HASH_SEED
    word = _divided(_rotated_right(_divided(word, 0x1B873593), 15), 0xCC9E2D51)
    return word - (1 << 32) if word >> 31 else word


def _divided(word: int, factor: int) -> int:
    return word * pow(factor, -1, 1 << 32) & _WORD


def _unshifted(word: int, bits: int) -> int:
    """What gave this word by ``x ^ (x >> bits)``."""
    return word ^ word >> bits ^ word >> 2 * bits


def _rotated_right(word: int, bits: int) -> int:
    return word >> bits | word << 32 - bits & _WORD
