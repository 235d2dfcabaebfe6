"""Reading a table into Spark: a full scan against ``spark.read.parquet``, and the time to the first row of 20,000 files.

Every column of every row is read and discarded (``noop``); ours includes opening the log. The two take turns in going first.

    python -m benchmarks.spark_scan [--rows 40000000] [--files 64] [--small-files 20000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.spark.io.scan import read_table
from benchmarks.spark_ops.__main__ import CONFS, session
from benchmarks.spark_ops.inputs import KEYS, TIMESTAMPS, Size, make_base

SCAN_RATIO, SCAN_SECONDS = 1.05, 0.5
"""The target of a scan: multiple of plain Spark's time, plus seconds."""
FIRST_ROW_SECONDS = 3.0
_WARM_UP_ROUNDS = 1
_ROWS_OF_A_SMALL_FILE = 50


def main() -> int:
    """Measure and print; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000_000)
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--small-files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-scan-") as directory:
        spark = session(options.cores, directory)
        print(f"{options}; Spark {spark.version}, {CONFS}", flush=True)
        try:
            is_met = [
                _scan(spark, Path(directory) / "large", options.rows, options.files, options.rounds),
                _first_row(spark, Path(directory) / "many", options.small_files, options.rounds),
            ]
        finally:
            spark.stop()
    print("every target is met" if all(is_met) else "a target is MISSED")
    return 0 if all(is_met) else 1


def _scan(spark: SparkSession, table: Path, rows: int, files: int, rounds: int) -> bool:
    size = Size(rows=rows, files=files, rounds=rounds, keys=next(iter(KEYS)), timestamps=next(iter(TIMESTAMPS)))
    make_base(spark, table, size, files=files, properties={})

    def ours() -> DataFrame:
        return read_table(spark, DeltaLog.for_table(str(table)).snapshot())

    def plain() -> DataFrame:
        return spark.read.parquet(str(table))

    counts = {ours().count(), plain().count()}
    taken: dict[Callable[[], DataFrame], list[float]] = {ours: [], plain: []}
    for number in range(_WARM_UP_ROUNDS + rounds):
        for side in (ours, plain) if number % 2 else (plain, ours):
            started = time.monotonic()
            side().write.format("noop").mode("overwrite").save()
            if number >= _WARM_UP_ROUNDS:
                taken[side].append(time.monotonic() - started)
    mine, theirs = (statistics.median(taken[side]) for side in (ours, plain))
    limit = SCAN_RATIO * theirs + SCAN_SECONDS
    print(f"scan of {rows} rows: ours {_text(taken[ours])}, plain {_text(taken[plain])}: {mine / theirs:.3f} times plain")
    is_met = mine <= limit and counts == {rows}
    print(f"  {'met' if is_met else 'MISSED'}: at most {limit:.2f} s; rows counted: {counts}", flush=True)
    return is_met


def _first_row(spark: SparkSession, table: Path, files: int, rounds: int) -> bool:
    table.mkdir()
    keys = np.arange(_ROWS_OF_A_SMALL_FILE)
    for number in range(files):
        columns = {f"c{index}": keys + number * index for index in range(7)}
        pq.write_table(pa.table({"key": keys + number * _ROWS_OF_A_SMALL_FILE, **columns}), table / f"{number:05d}.parquet")
    DeltaLog.convert(str(table))
    taken = []
    for number in range(_WARM_UP_ROUNDS + rounds):
        started = time.monotonic()
        found = read_table(spark, DeltaLog.for_table(str(table)).snapshot(), ["key"]).head()
        if number >= _WARM_UP_ROUNDS:
            taken.append(time.monotonic() - started)
    is_met = statistics.median(taken) <= FIRST_ROW_SECONDS and found is not None and len(found) == 1
    print(f"first row of {files} files: {_text(taken)}\n  {'met' if is_met else 'MISSED'}: at most {FIRST_ROW_SECONDS} s")
    return is_met


def _text(seconds: list[float]) -> str:
    return f"median {statistics.median(seconds):.2f} s ({', '.join(f'{second:.2f}' for second in seconds)})"


if __name__ == "__main__":
    sys.exit(main())
