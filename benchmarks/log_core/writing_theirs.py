"""Writing the log with ``deltalake``, or with the fewest system calls possible."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.log_core.tables import COMMITS, checkpoint_rows

_CONTENT = b"x" * 900
"""As long as the commit of one file."""


def write_checkpoint(table: str) -> Callable[[], list[int]]:
    """The checkpoint of a table that is already open."""
    opened = DeltaTable(table)

    def work() -> list[int]:
        opened.create_checkpoint()
        return checkpoint_rows(Path(table))

    return work


def write_sync_and_link(directory: str) -> Callable[[], list[int]]:
    """The minimum for an atomic and durable put-if-absent (write, sync, link), once in each of many directories."""
    logs = [Path(directory) / str(number) / "_delta_log" for number in range(COMMITS)]
    for log in logs:
        log.mkdir(parents=True)

    def work() -> list[int]:
        for log in logs:
            with (log / "temporary").open("wb") as file:
                file.write(_CONTENT)
                file.flush()
                os.fsync(file.fileno())
            os.link(log / "temporary", log / f"{1:020d}.json")
            (log / "temporary").unlink()
        return [len(logs)]

    return work
