"""What the driver needs for a table of very many files.

The cases are a MERGE that prunes none of them, a rewrite of all, deletion vectors for all, and planning an OPTIMIZE.

The log is real, the data files do not exist: workers receive their lists of files and read nothing. Each file has statistics of
ten columns, and its keys are spread over the whole range, like hashes. The driver is its JVM and the Python process; executors
are separate processes.

    python -m benchmarks.many_files [--files 1000000]
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.record_counts import COUNTED_FILE
from airflow_delta.core.statements import MatchedUpdate, MergeStatement, NotMatchedInsert, OptimizeStatement, SqlSource
from airflow_delta.spark.dml import deletion_vectors, staged_changes
from airflow_delta.spark.dml.merge.merge import merge
from airflow_delta.spark.io.map_files import FileShares
from airflow_delta.spark.io.staging import StagingArea
from airflow_delta.spark.io.worker_values import with_typed_errors
from airflow_delta.spark.optimize.plan import plan_of
from airflow_delta.spark.rewrite import rewrite
from airflow_delta.spark.rewrite.row_changes import DROP, OUTPUT, ROW
from benchmarks.large_merge import Residents, open_session

LIMIT = 1536 << 20
"""The most resident memory of the driver, in bytes."""
FUNCTION_LIMIT = 8 << 20
TASK_LIMIT = 20_000
_COLUMNS = [f"c{number}" for number in range(10)]
_FILES_OF_COMMIT = 50_000
_FILE_BYTES = 10 << 20
_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class NoRows:
    """A worker that receives the files of a scan and finds no rows."""

    shares: FileShares

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that Spark maps over each partition."""
        return with_typed_errors(self._rows(batches))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for files in self.shares.of(batches):
            files.to_pylist()
            yield from ()


@dataclass(slots=True)
class Scans:
    """Replaces ``map_files`` and records what a statement sends to its workers."""

    files: int = 0
    tasks: int = 0
    functions: list[int] = field(default_factory=list)

    def __call__(
        self, spark: Any, files: pa.Table, tasks: Any, worker: Callable[..., Any], *more: Any, **options: Any
    ) -> DataFrame:
        """Like ``map_files``, but no file is read."""

        def counted(shares: FileShares) -> NoRows:
            self.functions.append(len(pickle.dumps(worker(shares))))
            return NoRows(shares)

        self.files, self.tasks = len(files), int(tasks[-1]) + 1
        return map_files(spark, files, tasks, counted, *more, **options)


map_files = staged_changes.map_files


def main() -> int:
    """Make the log, measure each case in a fresh process, and print; 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--case", choices=list(_CASES))
    parser.add_argument("--table")
    options = parser.parse_args()
    if options.case:
        return _CASES[options.case](options.table, options.files)
    with tempfile.TemporaryDirectory(prefix="benchmark-many-") as directory:
        codes = [
            subprocess.call(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.many_files",
                    "--files",
                    str(options.files),
                    "--table",
                    directory,
                    "--case",
                    case,
                ]
            )
            for case in _CASES
        ]
    return max(codes)


def _make_log(table: str, files: int) -> int:
    log = Path(table) / "_delta_log"
    log.mkdir()
    names = np.random.default_rng(14)
    for version, first in enumerate(range(0, files, _FILES_OF_COMMIT)):
        lines = [] if version else list(map(json.dumps, _definition()))
        for number in range(first, min(first + _FILES_OF_COMMIT, files)):
            path = f"part-00000-{names.bytes(4).hex()}-{names.bytes(12).hex()}-c000.snappy.parquet"
            add = {"path": path, "partitionValues": {}, "size": _FILE_BYTES, "modificationTime": 1, "dataChange": True}
            lines.append(json.dumps({"add": {**add, "stats": json.dumps(_stats(number))}}))
        (log / f"{version:020}.json").write_text("\n".join(lines))
    DeltaLog.for_table(table).checkpoint()
    return 0


def _definition() -> Iterator[dict[str, Any]]:
    fields = [
        {"name": name, "type": "string" if name > "c6" else "long", "nullable": True, "metadata": {}} for name in _COLUMNS
    ]
    yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    schema = json.dumps({"type": "struct", "fields": fields})
    yield {
        "metaData": {
            "id": "many",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": {},
            "createdTime": 0,
        }
    }


def _stats(number: int) -> dict[str, Any]:
    low = {name: f"a{number:031}" if name > "c6" else number % 1000 for name in _COLUMNS}
    high = {name: f"z{number:031}" if name > "c6" else 10**15 - number for name in _COLUMNS}
    return {"numRecords": 100_000, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(_COLUMNS, 0)}


def _merge(table: str, files: int) -> int:
    scans = Scans()
    staged_changes.map_files = scans  # type: ignore[assignment]
    statement = MergeStatement(
        table=table,
        source=SqlSource(f"SELECT id * {10**10} + 1000 AS c0, id AS c1, 't' AS c7 FROM range({_ROWS})"),
        on="target.c0 = source.c0",
        clauses=(MatchedUpdate(assignments={"c1": "source.c1"}), NotMatchedInsert(assignments={"c0": "source.c0"})),
    )
    with tempfile.TemporaryDirectory(prefix="benchmark-many-") as directory:
        spark = open_session(2, directory)
        started = time.monotonic()
        with Residents() as residents:
            result = merge(spark, DeltaLog.for_table(table), statement)
        seconds = time.monotonic() - started
        spark.stop()
    is_within = (
        scans.files == files
        and result.metrics["numTargetRowsInserted"] == _ROWS
        and residents.driver <= LIMIT
        and max(scans.functions) <= FUNCTION_LIMIT
        and scans.tasks <= TASK_LIMIT
    )
    functions = f"{len(scans.functions)} functions, the largest {max(scans.functions) / (1 << 20):.1f} MiB"
    print(f"merge of {scans.files} files: {seconds:.0f} s, {scans.tasks} tasks, {functions}")
    print(f"  at most resident: driver {residents.driver >> 20} MiB, of it Python {_peak() >> 20} MiB")
    print(f"  {'met' if is_within else 'MISSED'}", flush=True)
    return int(not is_within)


def _rewrite(table: str, files: int) -> int:
    """Rewrite all files without a changed row: workers receive their files and read none."""

    def run(spark: SparkSession, log: DeltaLog) -> None:
        snapshot, outputs = log.snapshot(), _numbers(files)
        changes = spark.createDataFrame([], f"{OUTPUT} int, {ROW} bigint, {DROP} boolean")
        plan = rewrite.FileRewrite(
            snapshot=snapshot, inputs=snapshot.files(None, COUNTED_FILE), outputs=outputs, directory="new", data_change=True
        )
        plan.change(changes.sparkSession, changes, outputs)

    return _measure_functions(f"rewrite of {files} files", table, rewrite, "ChangeWorker", run)


def _vectors(table: str, files: int) -> int:
    """Write deletion vectors for all files without a deleted row, likewise."""

    def run(spark: SparkSession, log: DeltaLog) -> None:
        snapshot = log.snapshot()
        deleted = spark.createDataFrame([], f"{staged_changes.FILE} int, {staged_changes.ROW} bigint")
        inputs = snapshot.files(None, COUNTED_FILE)
        deletion_vectors.write_deletion_vectors(snapshot, inputs, _numbers(files), deleted, StagingArea(log.store))

    return _measure_functions(f"deletion vectors of {files} files", table, deletion_vectors, "DeletionVectorWorker", run)


def _numbers(files: int) -> pa.Array:
    return pa.array(np.arange(files), pa.int32())


def _measure_functions(
    title: str, table: str, module: ModuleType, worker: str, run: Callable[[SparkSession, DeltaLog], None]
) -> int:
    """Run the case, and print the pickled size of this worker's functions, and what the driver needs."""
    made, functions = getattr(module, worker), []

    def counted(**attributes: Any) -> Any:
        function = made(**attributes)
        functions.append(len(pickle.dumps(function)))
        return function

    setattr(module, worker, counted)
    with tempfile.TemporaryDirectory(prefix="benchmark-many-") as directory:
        spark = open_session(2, directory)
        started = time.monotonic()
        with Residents() as residents:
            run(spark, DeltaLog.for_table(table))
        seconds = time.monotonic() - started
        spark.stop()
    is_within = residents.driver <= LIMIT and max(functions) <= FUNCTION_LIMIT
    print(f"{title}: {seconds:.0f} s, the largest function {max(functions) / (1 << 10):.1f} KiB")
    print(f"  at most resident: driver {residents.driver >> 20} MiB, of it Python {_peak() >> 20} MiB")
    print(f"  {'met' if is_within else 'MISSED'}", flush=True)
    return int(not is_within)


def _optimize(table: str, files: int) -> int:
    started = time.monotonic()
    plan = plan_of(DeltaLog.for_table(table).snapshot(), OptimizeStatement(table=table), None)
    is_within = len(plan.inputs) >= files and _peak() <= LIMIT
    print(f"plan of an optimize of {len(plan.inputs)} files into {plan.new_files}: {time.monotonic() - started:.1f} s")
    print(f"  at most resident: {_peak() >> 20} MiB; {'met' if is_within else 'MISSED'}", flush=True)
    return int(not is_within)


def _peak() -> int:
    """Peak resident memory of this process, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


_CASES = {"log": _make_log, "merge": _merge, "rewrite": _rewrite, "vectors": _vectors, "optimize": _optimize}


if __name__ == "__main__":
    sys.exit(main())
