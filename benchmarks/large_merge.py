"""MERGE into a table larger than memory: 1 % and then all of the rows match, and one file is much larger than the others.

``local-cluster`` with executors of 1 GiB heap. The resident memory of an executor (its JVM and Python workers together) and of
the driver (its JVM and this process) may be 2 GiB each at most. Rows are 1 KiB uncompressed.

    python -m benchmarks.large_merge [--gib 20] [--executors 2]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import psutil
from pyspark.sql import SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.statements import FileSource, MatchedUpdate, MergeStatement, NotMatchedInsert
from airflow_delta.spark.dml.merge.merge import merge

LIMIT = 2 << 30
"""The most resident memory of an executor, or of the driver, in bytes."""
_ROWS_PER_GIB = 1 << 20
_ROWS_PER_FILE = 1 << 18
_EXECUTOR = "CoarseGrainedExecutorBackend"
_ROW = "id AS key, 0 AS seen, repeat(sha2(cast(id AS string), 256), 16) AS payload"


@dataclass(slots=True)
class Residents:
    """Peak resident memory of the driver, and of any executor, while the block ran: bytes, sampled."""

    driver: int = 0
    executor: int = 0
    _done: threading.Event = field(default_factory=threading.Event)
    _sampler: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        if self._sampler:
            self._sampler.join()

    def _sample(self) -> None:
        while not self._done.wait(0.2):
            driver, executors = _resident(psutil.Process())
            self.driver = max(self.driver, driver)
            self.executor = max([self.executor, *executors])


def _resident(process: psutil.Process) -> tuple[int, list[int]]:
    """Bytes of this process and its children without the executors; and of each executor with its children."""
    try:
        if _EXECUTOR in " ".join(process.cmdline()):
            return 0, [sum(_of(member) for member in (process, *process.children(recursive=True)))]
        parts = [_resident(child) for child in process.children()]
    except psutil.NoSuchProcess:
        return 0, []
    return _of(process) + sum(own for own, _ in parts), [part for _, found in parts for part in found]


def _of(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def main() -> int:
    """Merge, print, and check; 1 when a limit is broken or rows are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, default=20)
    parser.add_argument("--executors", type=int, default=2)
    options = parser.parse_args()
    rows = options.gib * _ROWS_PER_GIB
    with tempfile.TemporaryDirectory(prefix="benchmark-large-") as directory:
        spark = open_session(options.executors, directory)
        try:
            return 0 if all(list(_merges(spark, Path(directory), rows))) else 1
        finally:
            spark.stop()


def _merges(spark: SparkSession, directory: Path, rows: int) -> Iterator[bool]:
    table, source = directory / "table", directory / "source"
    small = rows * 3 // 4
    spark.sql(f"SELECT {_ROW} FROM range(0, {small}, 1, {small // _ROWS_PER_FILE})").write.parquet(str(table))
    spark.sql(f"SELECT {_ROW} FROM range({small}, {rows}, 1, 1)").write.mode("append").parquet(str(table))
    DeltaLog.convert(str(table))
    print(f"{rows} rows, {sum(file.stat().st_size for file in table.glob('*.parquet')) >> 20} MiB compressed", flush=True)
    for number, (name, step) in enumerate((("1 %", 100), ("all", 1)), 1):
        query = f"SELECT id * {step} AS key, {number} AS seen FROM range(0, {rows // step}, 1, 8)"
        spark.sql(query).write.mode("overwrite").parquet(str(source))
        statement = MergeStatement(
            table=str(table),
            source=FileSource(str(source), format="parquet"),
            on="target.key = source.key",
            clauses=(
                MatchedUpdate(assignments={"seen": "target.seen + source.seen"}),
                NotMatchedInsert(assignments={"key": "source.key"}),
            ),
        )
        started = time.monotonic()
        with Residents() as residents:
            result = merge(spark, DeltaLog.for_table(str(table)), statement)
        seconds = time.monotonic() - started
        is_right = _is_right(table, rows, number)
        is_within = max(residents.driver, residents.executor) <= LIMIT
        print(f"merge of {name} of the rows: {seconds:.0f} s, {result.metrics['numTargetRowsUpdated']} updated")
        print(f"  at most resident: driver {residents.driver >> 20} MiB, an executor {residents.executor >> 20} MiB")
        print(f"  {'met' if is_right and is_within else 'MISSED'}; rows are {'right' if is_right else 'WRONG'}", flush=True)
        yield is_right and is_within


def _is_right(table: Path, rows: int, merges: int) -> bool:
    """Check, with duckdb on the live files, that every row exists, was updated as often as expected, and kept its payload."""
    files = [
        str(table / path) for path in DeltaLog.for_table(str(table)).snapshot().files(columns=["path"])["path"].to_pylist()
    ]
    connection = duckdb.connect()
    connection.execute("SET memory_limit = '2GB'")
    found = connection.execute(
        f"SELECT count(*), sum(key), sum(seen), count_if(length(payload) = 1024) FROM read_parquet({files})"
    ).fetchone()
    seen = sum(rows // step * number for number, step in ((1, 100), (2, 1)) if number <= merges)
    return found == (rows, rows * (rows - 1) // 2, seen, rows)


def open_session(executors: int, directory: str) -> SparkSession:
    """A ``local-cluster`` session whose files lie in the directory."""
    root = str(Path(__file__).resolve().parents[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    session = (
        SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "1g")
        .config("spark.local.dir", directory)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    sys.exit(main())
