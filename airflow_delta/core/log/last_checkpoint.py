"""The file ``_last_checkpoint``: a hint where to begin reading, never more than that.

Protocol: PROTOCOL.md, "Last Checkpoint File".
"""

from __future__ import annotations

import json

from airflow_delta.core.log.file_names import LAST_CHECKPOINT
from airflow_delta.core.storage.log_store import LogStore


def hinted_version(store: LogStore) -> int | None:
    """The version of a checkpoint that was there once; None when the hint is missing or unreadable."""
    try:
        version = json.loads(store.read(LAST_CHECKPOINT))["version"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return version if isinstance(version, int) and version >= 0 else None
