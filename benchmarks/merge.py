"""A MERGE of 1 % upserts, against plain Spark reading and writing the whole table once.

Half of the source's rows update rows all over the table, half insert. The merge's time includes everything: opening the log,
matching, rewriting, statistics, commit. Both sides write snappy and TIMESTAMP_MICROS, run in one warmed-up session, and take
turns in going first. An independent engine then checks every row of the last merge.

    python -m benchmarks.merge [--rows 10000000] [--files 16] [--rounds 5] [--keys clustered|shuffled|uuid]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import FileSource, MergeStatement, SqlSource, WriteStatement
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.write.write import write
from benchmarks.process_tree import Meter

KEYS = {
    "clustered": "id",
    # 2654435761 is coprime to any number of rows below it: a permutation of the ids
    "shuffled": "pmod(id * 2654435761, {space})",
    "uuid": "substr(sha2(cast(id AS string), 256), 1, 36)",
}
COLUMNS = """
    {key} AS key,
    date_add(DATE'2013-01-01', cast(pmod(id * 7919, 365) AS int)) AS day,
    element_at(array('UA', 'AA', 'DL', 'B6', 'EV', 'MQ', 'US', 'WN'), cast(pmod(hash(id), 8) AS int) + 1) AS carrier,
    cast(pmod(hash(id, 1), 8000) AS int) AS flight,
    cast(pmod(hash(id, 2, {seed}), 600) - 60 AS int) AS delay,
    pmod(hash(id, 3, {seed}), 1000000) / 997.0D AS distance,
    timestamp_micros(1357000000000000 + id * 3000000 + pmod(hash(id, 4), 1000000)) AS departed,
    concat('N', pmod(hash(id, 5), 90000) + 10000) AS tail
"""
CONFS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "snappy",
}
WARM_UP_ROUNDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a benchmark is.

    Attributes:
        rows: Rows of the table; the source has 1 % of them.
        files: Files of the table.
        rounds: Measured rounds, after ``WARM_UP_ROUNDS``.
        keys: One of ``KEYS``.
    """

    rows: int
    files: int
    rounds: int
    keys: str


def main() -> int:
    """Run the benchmark and print its results; 1 when an independent engine finds other rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", choices=KEYS, default="clustered")
    parser.add_argument("--cores", type=int, default=2)
    options = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(prefix="benchmark-merge-") as directory:
        spark = open_session(options.pop("cores"), directory)
        try:
            return run(spark, Path(directory), Size(**options))
        finally:
            spark.stop()


def run(spark: SparkSession, directory: Path, size: Size, *, warm_up_rounds: int = WARM_UP_ROUNDS) -> int:
    """Measure in ``directory``; see ``main``."""
    base, source, copy, plain = (directory / name for name in ("base", "source", "copy", "plain"))
    _make_inputs(spark, base, source, size)
    # One task per file, so that plain Spark writes as many files as it reads (and has no large task at the end).
    spark.conf.set("spark.sql.files.maxPartitionBytes", max(Path(file).stat().st_size for file in data_files(base)))
    statement = MergeStatement(table=str(copy), source=FileSource(str(source), format="parquet"), on="target.key = source.key")
    ours: list[Meter] = []
    theirs: list[Meter] = []
    metrics: Mapping[str, int | str] = {}
    for number in range(warm_up_rounds + size.rounds):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(base, copy)
        for is_ours in (True, False) if number % 2 else (False, True):
            with Meter() as meter:
                if is_ours:
                    metrics = merge(spark, DeltaLog.for_table(str(copy)), statement).metrics
                else:
                    spark.read.parquet(*data_files(base)).write.mode("overwrite").parquet(str(plain))
            if number >= warm_up_rounds:
                (ours if is_ours else theirs).append(meter)
    print(f"{size}; local[{spark.sparkContext.defaultParallelism}], Spark {spark.version}, {CONFS}")
    print(f"metrics of the last merge: {metrics}")
    ratio = report("merge", ours) / report("plain read and write", theirs)
    print(f"ratio of the medians: {ratio:.2f}")
    print(f"files written by plain Spark: {len(data_files(plain))}")
    differing = differing_rows(copy, base, source)
    print(f"rows that differ from what duckdb computes: {differing}")
    return 1 if differing else 0


def report(name: str, meters: list[Meter]) -> float:
    """Print one side's figures and return its median in seconds."""
    seconds = statistics.median(meter.seconds for meter in meters)
    cpu = statistics.median(meter.cpu for meter in meters)
    peak = max(meter.peak for meter in meters) / 2**20
    each_round = ", ".join(f"{meter.seconds:.2f}" for meter in meters)
    print(f"{name:>20}: median {seconds:.2f} s ({each_round}), CPU {cpu:.2f} s, peak of the process tree {peak:.0f} MiB")
    return seconds


def open_session(cores: int, directory: str) -> SparkSession:
    """A local session with ``CONFS``."""
    root = str(Path(__file__).resolve().parents[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.local.dir", directory)
    for name, value in CONFS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _make_inputs(spark: SparkSession, base: Path, source: Path, size: Size) -> None:
    rows, upserts = size.rows, size.rows // 100
    key = KEYS[size.keys].format(space=2 * rows)
    query = f"SELECT {COLUMNS.format(key=key, seed=0)} FROM range(0, {rows}, 1, {size.files})"
    write(spark, DeltaLog.for_table(str(base)), WriteStatement(table=str(base), source=SqlSource(query), mode="append"))
    picked = f"SELECT CASE WHEN id % 2 = 0 THEN id * 100 + 7 ELSE {rows} + id END AS id FROM range(0, {upserts}, 1, 2)"
    spark.sql(f"SELECT {COLUMNS.format(key=key, seed=1)} FROM ({picked})").write.parquet(str(source))


def data_files(table: Path) -> list[str]:
    """The data files in a folder."""
    return sorted(str(file) for file in table.rglob("*.parquet") if "_delta_log" not in file.parts)


def differing_rows(table: Path, base: Path, source: Path) -> int:
    """Number of rows that are only in the merged table, or only in the result that duckdb computes."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    merged = DeltaTable(table).to_pyarrow_dataset()
    connection.register("merged", merged)
    connection.execute(f"CREATE VIEW source AS SELECT * FROM '{source}/*.parquet'")
    connection.execute(f"CREATE VIEW base AS SELECT * FROM read_parquet({data_files(base)})")
    expected = "SELECT * FROM base ANTI JOIN source USING (key) UNION ALL SELECT * FROM source"
    count = "SELECT count(*) FROM (({a}) EXCEPT ALL ({b}))"
    both = ("SELECT * FROM merged", expected)
    return sum(connection.execute(count.format(a=a, b=b)).fetchone()[0] for a, b in (both, both[::-1]))


if __name__ == "__main__":
    sys.exit(main())
