"""The generated tables of eight columns, and sources with one per cent of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_delta.core.delta_log import DeltaLog

KEYS = {
    "clustered": "id",
    # 2654435761 is coprime to any number of rows below it: a permutation of the ids
    "shuffled": "pmod(id * 2654435761, {space})",
    "uuid": "substr(sha2(cast(id AS string), 256), 1, 36)",
}
TIMESTAMPS = {"int96": "INT96", "micros": "TIMESTAMP_MICROS"}
_SHARED = """
    {key} AS key,
    date_add(DATE'2013-01-01', cast(pmod(id * 7919, 365) AS int)) AS day,
    cast(pmod(hash(id, 1), 8000) AS int) AS flight,
    cast(pmod(hash(id, 2, {seed}), 600) - 60 AS int) AS delay,
    pmod(hash(id, 3, {seed}), 1000000) / 997.0D AS distance,
    timestamp_micros(1357000000000000 + id * 3000000 + pmod(hash(id, 4), 1000000)) AS departed
"""
_CARRIER = "element_at(array('UA', 'AA', 'DL', 'B6', 'EV', 'MQ', 'US', 'WN'), cast(pmod(hash(id), 8) AS int) + 1)"
DATA = {
    "flights": {"carrier": _CARRIER, "tail": "concat('N', pmod(hash(id, 5), 90000) + 10000)"},
    "unique-strings": {
        "ticket": "substr(sha2(concat('ticket', id), 256), 1, 16)",
        "booking": "substr(sha2(concat('booking', id, {seed}), 256), 1, 36)",
    },
}
"""The two string columns (the other six are numbers, dates and times): repeated values, or a quarter of them unique."""
SPREAD, RANGE = "spread", "range"
"""The sources: rows that update rows all over the table and insert as many, or that update a contiguous range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a benchmark is.

    Attributes:
        rows: Rows of the table; a source has 1 % of them.
        files: Files of the table.
        rounds: Measured rounds.
        data: One of ``DATA``.
        keys: One of ``KEYS``.
        timestamps: Physical type of timestamps in the table's files, one of ``TIMESTAMPS``.
    """

    rows: int
    files: int
    rounds: int
    data: str
    keys: str
    timestamps: str


def make_base(spark: SparkSession, table: Path, size: Size, *, files: int, properties: Mapping[str, str]) -> None:
    """The table: files of Spark's own writer, which a commit makes a table; with INT96, as other writers leave it."""
    query = f"SELECT {generated_rows(size, seed=0)} FROM range(0, {size.rows}, 1, {files})"
    kind = TIMESTAMPS[size.timestamps]
    spark.sql(query).write.option("spark.sql.parquet.outputTimestampType", kind).parquet(str(table))
    DeltaLog.convert(str(table), properties=properties)


def make_source(spark: SparkSession, path: Path, size: Size, kind: str) -> None:
    """The rows of a source, as Parquet files."""
    upserts = size.rows // 100
    if kind == SPREAD:
        picked = f"SELECT CASE WHEN id % 2 = 0 THEN id * 100 + 7 ELSE {size.rows} + id END AS id FROM range(0, {upserts}, 1, 2)"
    else:
        first = size.rows // 2
        picked = f"SELECT id FROM range({first}, {first + upserts}, 1, 2)"
    spark.sql(f"SELECT {generated_rows(size, seed=1)} FROM ({picked})").write.parquet(str(path))


def generated_rows(size: Size, *, seed: int) -> str:
    """The columns of the rows, as SQL over ``id``; another seed gives the same keys other values."""
    strings = [f"{value} AS {name}" for name, value in DATA[size.data].items()]
    return ", ".join([_SHARED, *strings]).format(key=KEYS[size.keys].format(space=2 * size.rows), seed=seed)


def data_files(table: Path) -> list[str]:
    """The Parquet files of a directory, but not those of a log."""
    return sorted(str(file) for file in table.rglob("*.parquet") if "_delta_log" not in file.parts)
