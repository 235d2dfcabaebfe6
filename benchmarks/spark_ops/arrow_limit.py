"""The machine's lower bound: Arrow reads and writes, on all cores, only what a statement has to."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

from airflow_delta.core.delta_log import DeltaLog

_ROUNDS = 3
_BATCH_ROWS = 1 << 17
_Result = TypeVar("_Result")


def rewritten_files(table: Path) -> list[Path]:
    """The data files of the table's first version that the latest one does not have."""
    log = DeltaLog.for_table(str(table))
    before, after = (set(log.snapshot(version=version).files(columns=["path"])["path"].to_pylist()) for version in (0, None))
    return [table / path for path in sorted(before - after)]


def seconds_to_copy(files: Sequence[Path], to: Path, cores: int) -> float:
    """Seconds to read all rows of the files and write them with the same codec, dictionary columns and row group size."""
    to.mkdir(exist_ok=True)
    return _seconds(partial(_copy, to=to), files, cores)


def seconds_to_read(files: Sequence[Path], columns: Sequence[str], cores: int) -> float:
    """Seconds to read some columns of the files."""
    return _seconds(partial(_read, columns=list(columns)), files, cores)


def _seconds(work: Callable[[Path], _Result], files: Sequence[Path], cores: int) -> float:
    """Median seconds; each core has a process, which takes the next largest file when it has finished one."""
    ordered = sorted(files, key=lambda file: file.stat().st_size, reverse=True)
    found = []
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        for _ in range(1 + _ROUNDS):  # the first round warms up the processes
            began = time.monotonic()
            pool.map(work, ordered, chunksize=1)
            found.append(time.monotonic() - began)
    return statistics.median(found[1:])


def _copy(source: Path, to: Path) -> None:
    with pq.ParquetFile(source, coerce_int96_timestamp_unit="us", buffer_size=1 << 20) as file:
        chunks = file.metadata.row_group(0)
        columns = map(chunks.column, range(chunks.num_columns))
        with_dictionary = [column.path_in_schema for column in columns if "DICTIONARY" in " ".join(column.encodings)]
        options = {"compression": "snappy", "use_dictionary": with_dictionary, "store_schema": False}
        with pq.ParquetWriter(to / source.name, file.schema_arrow, **options) as writer:
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group, use_threads=False))


def _read(source: Path, columns: list[str]) -> None:
    with pq.ParquetFile(source, coerce_int96_timestamp_unit="us", buffer_size=1 << 20) as file:
        for _ in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            pass
