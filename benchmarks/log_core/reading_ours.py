"""Reading the log with our core."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pyarrow as pa

from airflow_delta.core import DeltaLog
from benchmarks.log_core.answer import answer
from benchmarks.log_core.tables import PARTITION, add_next_commit, partition_value

_COLUMNS = ("path", "size", "num_records")

for _late in ("airflow_delta.core.predicate.parse", "pandas"):
    import_module(_late)  # else imported with the first predicate, or by pyarrow with its first array; imports are not timed


def open_table(table: str) -> Callable[[], list[int]]:
    """Every live file."""
    return lambda: _all_of(DeltaLog.for_table(table))


def open_partition(table: str) -> Callable[[], list[int]]:
    """The files of one partition."""
    where = f"{PARTITION} = '{partition_value(0)}'"
    return lambda: _answer(DeltaLog.for_table(table).snapshot().files(where, columns=_COLUMNS))


def refresh(table: str) -> Callable[[], list[int]]:
    """Every live file, after a new commit."""
    known = DeltaLog.for_table(table)
    _all_of(known)
    add_next_commit(Path(table))
    return lambda: _all_of(known)


def _all_of(log: DeltaLog) -> list[int]:
    return _answer(log.snapshot().files(columns=_COLUMNS))


def _answer(files: pa.Table) -> list[int]:
    return answer(*(files[name] for name in _COLUMNS))
