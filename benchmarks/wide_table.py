"""Tables of thousands of columns: a write against plain Spark's, and a MERGE of 2 % of the rows against plain Spark's copy.

Both sides read the same Parquet files in one session and take turns in going first; the first round warms up. Afterwards
``deltalake`` counts the rows, and compares the sums of some columns.

    python -m benchmarks.wide_table [--columns 2000] [--rows 20000] [--files 4] [--rounds 3]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import FileSource, MergeStatement, WriteStatement
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.write.write import write
from benchmarks.process_tree import Meter
from benchmarks.spark_ops.__main__ import CONFS, session

TARGET = 1.5
"""The target of a write, as a multiple of plain Spark's time."""
_VALUES = ("cast((id * {0}) % 1000 AS int)", "id * {0} / 7.0D", "concat('v', (id + {0}) % 97)", "id + {0}")


def main() -> int:
    """Measure and print; 1 when the target is missed or rows are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-wide-") as directory:
        spark = session(options.cores, directory)
        print(f"{options}; Spark {spark.version}, {CONFS}", flush=True)
        try:
            _make_inputs(spark, Path(directory), options.columns, options.rows, options.files)
            return 0 if _run(spark, Path(directory), options.rows, options.rounds) else 1
        finally:
            spark.stop()


def _make_inputs(spark: SparkSession, directory: Path, columns: int, rows: int, files: int) -> None:
    """The rows of the table, and a source of 2 % as many, half of which update and half insert."""
    values = ", ".join(f"{_VALUES[number % len(_VALUES)].format(number)} AS c{number}" for number in range(1, columns))
    for name, ids in (
        ("rows", f"SELECT id FROM range(0, {rows}, 1, {files})"),
        ("source", f"SELECT CASE WHEN id % 2 = 0 THEN id * 50 ELSE {rows} + id END AS id FROM range(0, {rows // 50}, 1, 1)"),
    ):
        spark.sql(f"SELECT id AS key, {values} FROM ({ids})").write.parquet(str(directory / name))


def _run(spark: SparkSession, directory: Path, rows: int, rounds: int) -> bool:
    read, source, table, copy, plain = (str(directory / name) for name in ("rows", "source", "table", "copy", "plain"))

    def written() -> None:
        shutil.rmtree(table, ignore_errors=True)
        statement = WriteStatement(table=table, source=FileSource(read, format="parquet"), mode="append")
        write(spark, DeltaLog.for_table(table), statement)

    def merged() -> None:
        statement = MergeStatement(table=copy, source=FileSource(source, format="parquet"), on="target.key = source.key")
        merge(spark, DeltaLog.for_table(copy), statement)

    def copied() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(table, copy)

    def parquet() -> None:
        spark.read.parquet(read).write.mode("overwrite").parquet(plain)

    ratio = _ratio("write", {"ours": written, "plain": parquet}, rounds)
    inserted = rows // 50 // 2
    are_right = [_is_right(table, range(rows))]
    _ratio("merge", {"ours": merged, "plain": parquet}, rounds, before=copied)
    are_right.append(_is_right(copy, [*range(rows), *(rows + 2 * number + 1 for number in range(inserted))]))
    print(f"write: {'met' if ratio <= TARGET else 'MISSED'}; rows are {'right' if all(are_right) else 'WRONG'}")
    return ratio <= TARGET and all(are_right)


def _ratio(
    case: str, sides: Mapping[str, Callable[[], None]], rounds: int, *, before: Callable[[], None] | None = None
) -> float:
    taken: dict[str, list[Meter]] = {name: [] for name in sides}
    for number in range(1 + rounds):
        if before is not None:
            before()
        for name in sorted(sides, reverse=bool(number % 2)):
            with Meter() as meter:
                sides[name]()
            if number:
                taken[name].append(meter)
    medians = {name: statistics.median(meter.seconds for meter in meters) for name, meters in taken.items()}
    for name, meters in taken.items():
        each = ", ".join(f"{meter.seconds:.2f} s (CPU {meter.cpu:.1f} s)" for meter in meters)
        print(f"{case}, {name:>5}: median {medians[name]:.2f} s ({each}); peak {max(meter.peak for meter in meters) >> 20} MiB")
    ratio = medians["ours"] / medians["plain"]
    print(f"{case}: ratio {ratio:.2f}", flush=True)
    return ratio


def _is_right(table: str, ids: range | list[int]) -> bool:
    """Whether the table holds exactly these rows with their original values."""
    found = DeltaTable(table).to_pyarrow_table(columns=["key", "c1", "c3"])
    sums = [pc.sum(found[name]).as_py() for name in ("key", "c3")]
    return (len(found), *sums) == (len(ids), sum(ids), sum(number + 3 for number in ids))


if __name__ == "__main__":
    sys.exit(main())
