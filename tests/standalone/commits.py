"""What a table's history says of those who committed."""

from __future__ import annotations

from pathlib import Path

from airflow_delta.core import DeltaLog
from airflow_delta.core.actions import Origin


def origins(table: Path) -> list[tuple[int, Origin]]:
    """Each commit's version and who made it, oldest first."""
    log = DeltaLog.for_table(str(table))
    history = log.history() if log.exists() else []
    return sorted(((each.version, each.commit_info.origin) for each in history), key=lambda each: each[0])
