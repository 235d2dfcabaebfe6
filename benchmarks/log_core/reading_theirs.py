"""Reading the log with ``deltalake``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.log_core.answer import answer
from benchmarks.log_core.tables import PARTITION, add_next_commit, partition_value


def open_table(table: str) -> Callable[[], list[int]]:
    """Every live file."""
    return lambda: _all_of(DeltaTable(table))


def open_partition(table: str) -> Callable[[], list[int]]:
    """The files of one partition."""

    def work() -> list[int]:
        files = pa.table(DeltaTable(table).get_add_actions(flatten=True))
        return _answer(files.filter(pc.equal(files[f"partition.{PARTITION}"], partition_value(0))))

    return work


def refresh(table: str) -> Callable[[], list[int]]:
    """Every live file, after a new commit."""
    known = DeltaTable(table)
    _all_of(known)
    add_next_commit(Path(table))

    def work() -> list[int]:
        known.update_incremental()
        return _all_of(known)

    return work


def _all_of(table: DeltaTable) -> list[int]:
    return _answer(pa.table(table.get_add_actions(flatten=True)))


def _answer(files: pa.Table) -> list[int]:
    return answer(files["path"], files["size_bytes"], files["num_records"])
