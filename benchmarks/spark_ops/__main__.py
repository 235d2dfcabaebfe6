"""Every operation on Spark against plain Spark that reads and writes the same table once, in the same session.

Both sides write snappy and TIMESTAMP_MICROS on the same cores; each case is warmed up, and they take turns in going first. An
operation's time includes everything: opening the log, planning, rewriting, statistics, commit. Afterwards another engine checks
every row of the last run. As a lower bound, Arrow alone copies the files that were rewritten, or reads the columns that decide
which rows are deleted, in as many processes as there are cores. For a condition, Spark alone counts the matching rows, too.

    python -m benchmarks.spark_ops [--case merge-spread] [--data flights|unique-strings] [--rows 10000000] [--files 16]
                                   [--rounds 5] [--keys clustered|shuffled|uuid] [--timestamps int96|micros]
                                   [--memory 3g]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_delta.jobs.session import DEFAULTS
from benchmarks.process_tree import Meter
from benchmarks.spark_ops.arrow_limit import rewritten_files, seconds_to_copy, seconds_to_read
from benchmarks.spark_ops.cases import CASES, Case, Inputs, counted_plainly
from benchmarks.spark_ops.inputs import DATA, KEYS, RANGE, SPREAD, TIMESTAMPS, Size, data_files, make_base, make_source
from benchmarks.spark_ops.row_check import differing_rows
from benchmarks.spark_ops.targets import targets

CONFS = {
    **DEFAULTS,  # as in the session of a job
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "snappy",
}
MEMORY = "3g"
_WARM_UP_ROUNDS = 2
_COUNTS = 5


def main() -> int:
    """Measure and print; 1 when a target is missed or rows differ."""
    cases = {case.name: case for case in CASES}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=cases, action="append", help="only this one (may be given more than once)")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", choices=DATA, default="flights")
    parser.add_argument("--keys", choices=KEYS, default="clustered")
    parser.add_argument("--timestamps", choices=TIMESTAMPS, default="int96")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default=MEMORY, help="of the JVM")
    options = vars(parser.parse_args())
    chosen, cores, memory = options.pop("case") or list(cases), options.pop("cores"), options.pop("memory")
    size = Size(**options)
    with tempfile.TemporaryDirectory(prefix="benchmark-spark-") as directory:
        spark = session(cores, directory, memory)
        print(f"{size}; local[{cores}], {memory}, Spark {spark.version}, {CONFS}", flush=True)
        try:
            sources = {kind: Path(directory) / kind for kind in (SPREAD, RANGE)}
            for kind, path in sources.items():
                make_source(spark, path, size, kind)
            missed = [name for name in chosen if not _is_met(spark, cases[name], Path(directory), sources, size)]
        finally:
            spark.stop()
    print(f"missed: {', '.join(missed)}" if missed else "every target is met")
    return 1 if missed else 0


def _is_met(spark: SparkSession, case: Case, directory: Path, sources: dict[str, Path], size: Size) -> bool:
    """Measure a case, print it, and return whether it meets its target with the right rows."""
    base, copy, plain = (directory / name for name in (_base_name(case, size), "copy", "plain"))
    if not base.exists():
        make_base(spark, base, size, files=case.files or size.files, properties=case.properties)
    # One task per file, so that plain Spark writes as many files as it reads (and has no large task at the end).
    spark.conf.set("spark.sql.files.maxPartitionBytes", max(Path(file).stat().st_size for file in data_files(base)))
    ours: list[Meter] = []
    theirs: list[Meter] = []
    for number in range(_WARM_UP_ROUNDS + size.rounds):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(base, copy)
        for is_ours in (True, False) if number % 2 else (False, True):
            with Meter() as meter:
                if is_ours:
                    case.run(spark, copy, Inputs(base=base, sources=sources))
                else:
                    case.plain(spark, base, plain)
            if number >= _WARM_UP_ROUNDS:
                (ours if is_ours else theirs).append(meter)
    differing = differing_rows(copy, base, sources, case.expected)
    target, seconds, plain_seconds = targets(size)[case.name], _median(ours), _median(theirs)
    is_met = seconds <= target.limit(plain_seconds) and not differing
    print(case.name)
    print(_line("ours", ours))
    print(_line("plain", theirs))
    if limit := _arrow_limit(case, base, copy, directory / "limit", int(spark.sparkContext.defaultParallelism)):
        print(f"  limit: {limit:.3f} s, ratio {limit / plain_seconds:.3f}: Arrow alone on all cores")
    if case.where:
        limit = _spark_limit(spark, base, case.where)
        print(f"  limit: {limit:.3f} s, ratio {limit / plain_seconds:.3f}: Spark alone counts the rows that are found")
    print(f"  ratio {seconds / plain_seconds:.2f} (target {target}), {differing} rows differ")
    print("  met" if is_met else "  MISSED", flush=True)
    return is_met


def _arrow_limit(case: Case, base: Path, table: Path, scratch: Path, cores: int) -> float | None:
    """Seconds that Arrow alone takes; None if nothing is rewritten or read."""
    if case.read:
        return seconds_to_read(list(map(Path, data_files(base))), case.read, cores)
    files = rewritten_files(table)
    return seconds_to_copy(files, scratch, cores) if files else None


def _spark_limit(spark: SparkSession, base: Path, where: str) -> float:
    """Median seconds that Spark alone takes."""
    meters = []
    for _ in range(_WARM_UP_ROUNDS + _COUNTS):
        with Meter() as meter:
            counted_plainly(spark, base, where)
        meters.append(meter)
    return _median(meters[_WARM_UP_ROUNDS:])


def _base_name(case: Case, size: Size) -> str:
    return "-".join(["base", str(case.files or size.files), *case.properties])


def _median(meters: list[Meter]) -> float:
    return statistics.median(meter.seconds for meter in meters)


def _line(name: str, meters: list[Meter]) -> str:
    cpu = statistics.median(meter.cpu for meter in meters)
    peak = max(meter.peak for meter in meters) / 2**20
    rounds = ", ".join(f"{meter.seconds:.2f}" for meter in meters)
    return f"  {name:>5}: median {_median(meters):.2f} s ({rounds}), CPU {cpu:.2f} s, peak of the process tree {peak:.0f} MiB"


def session(cores: int, directory: str, memory: str = MEMORY) -> SparkSession:
    """A session for the measurements, whose workers import this checkout."""
    root = str(Path(__file__).resolve().parents[2])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.local.dir", directory)
        .config("spark.driver.memory", memory)
    )
    for name, value in CONFS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    sys.exit(main())
