"""Bloom filters on a UUID column whose range is the same in every file: what lookups gain, and what writing costs.

Prints the bytes and seconds that the filters add to writing the table; how many files a lookup still has to read, for absent
and for present keys; and a MERGE of keys that lie in three files, against plain Spark copying the table once. An independent
engine then checks every row of the last MERGE.

    python -m benchmarks.bloom_filters [--rows 10000000] [--files 120] [--rounds 5] [--keys 1000] [--fpp 1e-5] [--items 100000]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import FileSource, MergeStatement, SqlSource, WriteStatement
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.write.write import write
from benchmarks.merge import COLUMNS, KEYS, data_files, differing_rows, open_session, report
from benchmarks.process_tree import Meter

WARM_UP_ROUNDS = 2
LOOKUPS = 100
TOUCHED_FILES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the benchmark is.

    Attributes:
        rows: Rows of the table.
        files: Files of the table.
        rounds: Measured rounds, after ``WARM_UP_ROUNDS``.
        keys: Rows of the MERGE's source.
        fpp: False positive rate of the filters; the default rate when None.
        items: Distinct values per row group, set as a table property; counted by the writer when None.
    """

    rows: int
    files: int
    rounds: int
    keys: int
    fpp: str | None
    items: str | None


def main() -> int:
    """Run the benchmark and print its results; 1 when an independent engine finds other rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 10_000_000), ("files", 120), ("rounds", 5), ("keys", 1_000), ("cores", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--fpp")
    parser.add_argument("--items")
    options = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(prefix="benchmark-bloom-filters-") as directory:
        spark = open_session(options.pop("cores"), directory)
        try:
            return run(spark, Path(directory), Size(**options))
        finally:
            spark.stop()


def run(spark: SparkSession, directory: Path, size: Size, *, warm_up_rounds: int = WARM_UP_ROUNDS) -> int:
    """Measure in ``directory``; see ``main``."""
    print(f"{size}; load {os.getloadavg()}, Spark {spark.version}")
    base = directory / "with"
    _report_price(spark, base, directory / "without", size)
    _report_lookups(spark, base, size)
    differing = _report_merge(spark, directory, base, size, warm_up_rounds)
    print(f"rows that differ from what duckdb computes: {differing}; load {os.getloadavg()}")
    return 1 if differing else 0


def _report_price(spark: SparkSession, indexed: Path, plain: Path, size: Size) -> None:
    """Write the table with and without filters, alternately, in half as many rounds; the last two tables stay."""
    query = f"SELECT {COLUMNS.format(key=KEYS['uuid'], seed=0)} FROM range(0, {size.rows}, 1, {size.files})"
    properties = {"airflow_delta.bloomFilter.columns": "key"}
    properties |= {"airflow_delta.bloomFilter.fpp": size.fpp} if size.fpp else {}
    properties |= {"airflow_delta.bloomFilter.numItems": size.items} if size.items else {}
    warm_up = WriteStatement(table=str(plain), source=SqlSource(f"{query} LIMIT {size.rows // 10}"), mode="append")
    write(spark, DeltaLog.for_table(str(plain)), warm_up)
    meters: dict[Path, list[Meter]] = {indexed: [], plain: []}
    for number in range(max(1, size.rounds // 2)):
        for table in (indexed, plain) if number % 2 else (plain, indexed):
            shutil.rmtree(table, ignore_errors=True)
            chosen = properties if table is indexed else {}
            statement = WriteStatement(table=str(table), source=SqlSource(query), mode="append", properties=chosen)
            with Meter() as meter:
                write(spark, DeltaLog.for_table(str(table)), statement)
            meters[table].append(meter)
    larger = _bytes(indexed) / _bytes(plain) - 1
    print(f"price: {_bytes(indexed) / 2**20:.0f} MiB instead of {_bytes(plain) / 2**20:.0f} MiB ({larger:+.1%})")
    ratio = report("written with filters", meters[indexed]) / report("written without", meters[plain])
    cpu = statistics.median(meter.cpu for meter in meters[indexed]) / statistics.median(meter.cpu for meter in meters[plain])
    print(f"ratio of the medians: {ratio:.2f}, of CPU seconds {cpu:.2f}")


def _report_lookups(spark: SparkSession, table: Path, size: Size) -> None:
    snapshot = DeltaLog.for_table(str(table)).snapshot()
    step = size.rows // LOOKUPS

    def keys_from(start: int) -> list[str]:
        ids = f"range({start}, {start + step * LOOKUPS}, {step})"
        return [row.key for row in spark.sql(f"SELECT {KEYS['uuid']} AS key FROM {ids}").collect()]

    absent, present = keys_from(2 * size.rows), keys_from(0)
    for name, keys in (("absent", absent), ("present", present)):
        started = time.monotonic()
        left = [len(snapshot.files(f"key = '{key}'", ["path"])) for key in keys[:20]]
        each = (time.monotonic() - started) / len(left)
        print(f"one {name} key: {statistics.mean(left):.2f} of {size.files} files left on average, {each:.3f} s each")
    started = time.monotonic()
    kept = len(snapshot.files(f"key IN ({_listed(absent)})", ["path"]))
    seconds = time.monotonic() - started
    print(f"{LOOKUPS} absent keys at once: {1 - kept / size.files:.1%} of {size.files} files skipped, {seconds:.3f} s")


def _report_merge(spark: SparkSession, directory: Path, base: Path, size: Size, warm_up_rounds: int) -> int:
    source, copy, plain = (directory / name for name in ("source", "copy", "plain"))
    parts = [(size.files * part // TOUCHED_FILES, (size.keys + part) // TOUCHED_FILES) for part in range(TOUCHED_FILES)]
    step = max(1, size.rows // size.files // (size.keys // TOUCHED_FILES + 4))
    starts = [(-(-size.rows * file // size.files), keys) for file, keys in parts]  # each file holds a range of ids
    ids = " UNION ALL ".join(f"SELECT {start} + id * {step} AS id FROM range({keys})" for start, keys in starts)
    spark.sql(f"SELECT {COLUMNS.format(key=KEYS['uuid'], seed=1)} FROM ({ids})").coalesce(1).write.parquet(str(source))
    spark.conf.set("spark.sql.files.maxPartitionBytes", max(Path(file).stat().st_size for file in data_files(base)))
    statement = MergeStatement(table=str(copy), source=FileSource(str(source), format="parquet"), on="target.key = source.key")
    ours, theirs = [], []
    metrics = {}
    for number in range(warm_up_rounds + size.rounds):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(base, copy)
        for is_ours in (True, False) if number % 2 else (False, True):
            with Meter() as meter:
                if is_ours:
                    metrics = dict(merge(spark, DeltaLog.for_table(str(copy)), statement).metrics)
                else:
                    spark.read.parquet(*data_files(base)).write.mode("overwrite").parquet(str(plain))
            if number >= warm_up_rounds:
                (ours if is_ours else theirs).append(meter)
    print(f"metrics of the last merge: {metrics}")
    ratio = report(f"merge of {size.keys}", ours) / report("plain read and write", theirs)
    cpu = statistics.median(meter.cpu for meter in ours) / statistics.median(meter.cpu for meter in theirs)
    print(f"ratio of the medians: {ratio:.2f}, of CPU seconds {cpu:.2f}")
    return differing_rows(copy, base, source)


def _bytes(table: Path) -> int:
    return sum(Path(file).stat().st_size for file in data_files(table))


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(f"'{key}'" for key in keys)


if __name__ == "__main__":
    sys.exit(main())
