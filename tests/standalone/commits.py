"""Who made each commit, from a table's history."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import Origin


def origins(table: Path) -> list[tuple[int, Origin]]:
    """Version and author of each commit, oldest first."""
    log = DeltaLog.for_table(str(table))
    history = log.history() if log.exists() else []
    return sorted(((entry.version, entry.commit_info.origin) for entry in history), key=itemgetter(0))
