"""Ways to read a table into Spark against ``spark.read.parquet`` on the same files: one column, one row, everything.

Each of ours opens the log again. All take turns in going first; the first round warms up. All results must be equal.

    python -m benchmarks.spark_read [--rows 5000000] [--files 16] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.spark import DeltaTable, delta_reader, register, sql
from benchmarks.spark_ops.__main__ import CONFS, session

RATIO, SECONDS = 1.1, 0.5
"""The target: multiple of Parquet's time, plus seconds."""
FORMAT_RATIO = 2.0
"""The target of ``format("delta")``, which passes every row through Python."""
_FORMAT = 'format("delta")'
_COLUMNS = (
    "id",
    "CAST(id % 1000 AS INT) AS a",
    "id * 7919 % 1000003 AS b",
    "id / 3 AS x",
    "sqrt(id) AS y",
    "CAST(id % 100000 AS DECIMAL(12, 2)) AS d",
    "DATE'2020-01-01' + CAST(id % 1000 AS INT) AS day",
    "timestamp_seconds(1577836800 + id) AS ts",
    "CONCAT('s', id % 100) AS s",
    "CONCAT('text of row ', id * 2654435761 % 4294967296) AS t",
)

Read = Callable[[], DataFrame]


def main() -> int:
    """Measure and print; 1 when a target is missed or results differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-read-") as directory:
        spark = session(options.cores, directory)
        register(spark)
        print(f"{options}; Spark {spark.version}, {CONFS}", flush=True)
        path = str(Path(directory) / "table")
        try:
            spark.range(0, options.rows, 1, options.files).selectExpr(*_COLUMNS).write.parquet(path)
            DeltaLog.convert(path)
            cases = {
                "sum of one column": (_sums(spark, path), lambda rows: rows.collect()[0][0]),
                "id = 77": (_single_rows(spark, path), lambda rows: rows.collect()),
                "all columns": (_all(spark, path), _discarded),
            }
            is_met = [_measured(name, reads, action, options.rounds) for name, (reads, action) in cases.items()]
        finally:
            spark.stop()
    print("every target is met" if all(is_met) else "a target is MISSED")
    return 0 if all(is_met) else 1


def _all(spark: SparkSession, path: str) -> Mapping[str, Read]:
    return {
        "parquet": lambda: spark.read.parquet(path),
        "toDF": lambda: DeltaTable.forPath(spark, path).toDF(),
        "delta_reader": lambda: delta_reader(spark).load(path),
        "sql": lambda: sql(spark, f"SELECT * FROM delta.`{path}`"),
        _FORMAT: lambda: spark.read.format("delta").load(path),
    }


def _sums(spark: SparkSession, path: str) -> Mapping[str, Read]:
    summed = {
        name: lambda read=read: read().agg(F.sum("b"))  # type: ignore[misc]
        for name, read in _all(spark, path).items()
    }
    return {**summed, "sql": lambda: sql(spark, f"SELECT sum(b) FROM delta.`{path}`")}


def _single_rows(spark: SparkSession, path: str) -> Mapping[str, Read]:
    chosen = {
        name: lambda read=read: read().where("id = 77")  # type: ignore[misc]
        for name, read in _all(spark, path).items()
    }
    return {
        **chosen,
        "delta_reader": lambda: delta_reader(spark).where("id = 77").load(path),
        "sql": lambda: sql(spark, f"SELECT * FROM delta.`{path}` WHERE id = 77"),
    }


def _discarded(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _measured(case: str, reads: Mapping[str, Read], action: Callable[[DataFrame], Any], rounds: int) -> bool:
    taken: dict[str, list[float]] = {name: [] for name in reads}
    found = []
    for number in range(rounds + 1):
        names = list(reads)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            started = time.monotonic()
            found.append(action(reads[name]()))
            if number:
                taken[name].append(time.monotonic() - started)
    parquet = statistics.median(taken["parquet"])
    print(f"{case}: parquet {parquet:.2f} s", flush=True)
    are_equal = all(each == found[0] for each in found)
    if not are_equal:
        print("  results DIFFER")
    is_met = [_is_met(name, statistics.median(taken[name]), parquet) for name in reads if name != "parquet"]
    return are_equal and all(is_met)


def _is_met(name: str, seconds: float, parquet: float) -> bool:
    limit = FORMAT_RATIO * parquet if name == _FORMAT else RATIO * parquet + SECONDS
    word = "met" if seconds <= limit else "MISSED"
    print(f"  {name:16} {seconds:6.2f} s, {seconds / parquet:5.2f} times parquet; at most {limit:.2f} s: {word}", flush=True)
    return seconds <= limit


if __name__ == "__main__":
    sys.exit(main())
