"""MERGE of more and more source rows into one table: does its time grow in proportion, or does it jump?

Half of a source's rows update rows all over the table, half insert. For each merge plain Spark computes the same table (an anti
join, a union, a write) as a baseline: relative to the smallest source, the merge's time may grow 1.3 times as much as the
baseline's. Also prints the cost of each further million rows from one source to the next, and how much longer it takes for how
many times as many rows, where a cliff would show. Then it counts the target rows that Python workers pass to the JVM, and an
independent engine checks every row.

    python -m benchmarks.merge_sizes [--rows 10000000] [--sources 1000000,2000000,10000000] [--rounds 3] [--keys shuffled]
                                    [--memory 3g]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_delta.core.actions import Origin
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.record_counts import COUNTED_FILE
from airflow_delta.core.statements import FileSource, MergeStatement
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.dml.merge.plan import plan_merge
from airflow_delta.spark.dml.staged_changes import columns_needed, scan_positions
from airflow_delta.spark.io.row_cache import RowCache
from benchmarks.process_tree import Meter
from benchmarks.spark_ops.__main__ import CONFS, MEMORY, session
from benchmarks.spark_ops.inputs import KEYS, Size, generated_rows, make_base
from benchmarks.spark_ops.row_check import differing_rows

LIMIT = 1.3
"""How much more a merge's time may grow than the baseline's, as a ratio."""
_SOURCE = "source"
_UPSERTED = f"SELECT * FROM base ANTI JOIN {_SOURCE} USING (key) UNION ALL SELECT * FROM {_SOURCE}"


def main() -> int:
    """Measure and print; 1 when a merge's time grows too much, or rows differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--sources", default="1000000,2000000,10000000")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keys", choices=KEYS, default="shuffled")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default=MEMORY, help="of the JVM")
    options = parser.parse_args()
    shape = {"data": "flights", "keys": options.keys, "timestamps": "micros"}
    size = Size(rows=options.rows, files=options.files, rounds=options.rounds, **shape)
    with tempfile.TemporaryDirectory(prefix="benchmark-merge-sizes-") as directory:
        spark = session(options.cores, directory, options.memory)
        print(f"{size}; local[{options.cores}], {options.memory}, Spark {spark.version}, {CONFS}", flush=True)
        try:
            make_base(spark, Path(directory) / "base", size, files=size.files, properties={})
            return 0 if _run(spark, Path(directory), size, [int(rows) for rows in options.sources.split(",")]) else 1
        finally:
            spark.stop()


def _run(spark: SparkSession, directory: Path, size: Size, sources: list[int]) -> bool:
    first: tuple[float, float] | None = None
    before: tuple[int, float] | None = None
    are_met = []
    for rows in sources:
        ours, plain, entered, differing = _measured(spark, directory, size, rows)
        first = first or (ours, plain)
        growth, explained = ours / first[0], plain / first[1]
        are_met.append(growth <= LIMIT * explained and not differing)
        print(f"{rows} source rows: {ours:.2f} s, plain Spark {plain:.2f} s; {entered} target rows entered the JVM")
        print(f"  grown {growth:.2f} times, plain Spark {explained:.2f}: {growth / explained:.2f} times what rows explain")
        if before:
            fewer, seconds = before
            print(f"  a million more rows than {fewer} cost {1e6 * (ours - seconds) / (rows - fewer):.2f} s")
            print(f"  {rows / fewer:.1f} times as many rows take {ours / seconds:.2f} times as long")
        before = (rows, ours)
        print(f"  {'met' if are_met[-1] else 'MISSED'}; {differing} rows differ", flush=True)
    return all(are_met)


def _measured(spark: SparkSession, directory: Path, size: Size, rows: int) -> tuple[float, float, int, int]:
    """Median seconds of the merge and of plain Spark, the number of rows that entered the JVM, and of wrong rows."""
    base, source, copy, plain = (directory / name for name in ("base", _SOURCE, "copy", "plain"))
    updates = rows // 2
    picked = f"CASE WHEN id % 2 = 0 THEN id DIV 2 * {size.rows // updates} ELSE {size.rows} + id END AS id"
    query = f"SELECT {generated_rows(size, seed=1)} FROM (SELECT {picked} FROM range(0, {rows}, 1, 4))"
    spark.sql(query).write.mode("overwrite").parquet(str(source))
    statement = MergeStatement(table=str(copy), source=FileSource(str(source), format="parquet"), on="target.key = source.key")
    ours: list[Meter] = []
    theirs: list[Meter] = []
    for number in range(1 + size.rounds):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(base, copy)
        for is_ours in (True, False) if number % 2 else (False, True):
            with Meter() as meter:
                if is_ours:
                    merge(spark, DeltaLog.for_table(str(copy)), statement)
                else:
                    upserts = spark.read.parquet(str(source))
                    kept = spark.read.parquet(str(base)).join(upserts, "key", "left_anti")
                    kept.unionByName(upserts).write.mode("overwrite").parquet(str(plain))
            if number:
                (ours if is_ours else theirs).append(meter)
    differing = differing_rows(copy, base, {_SOURCE: source}, _UPSERTED)
    seconds = [statistics.median(meter.seconds for meter in meters) for meters in (ours, theirs)]
    for name, meters in (("ours", ours), ("plain", theirs)):
        each = ", ".join(f"{meter.seconds:.2f} s (CPU {meter.cpu:.1f} s)" for meter in meters)
        print(f"  {name:>5}: {each}; peak {max(meter.peak for meter in meters) >> 20} MiB", flush=True)
    return seconds[0], seconds[1], _entered(spark, base, statement), differing


def _entered(spark: SparkSession, base: Path, statement: MergeStatement) -> int:
    """How many rows of the table a merge reads into the JVM."""
    snapshot = DeltaLog.for_table(str(base)).snapshot()
    with RowCache(snapshot.store) as cache:
        plan = plan_merge(snapshot, (), spark=spark, statement=statement, origin=Origin(), cache=cache)
        files = snapshot.files(plan.predicate, COUNTED_FILE)
        columns = columns_needed(snapshot, plan.clauses, plan.source.on)
        return scan_positions(spark, snapshot, files, columns, keys=plan.source.keys_for(files, cache)).count()


if __name__ == "__main__":
    sys.exit(main())
