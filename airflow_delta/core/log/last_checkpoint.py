"""The file ``_last_checkpoint``: a hint where to begin reading, never more than that.

Protocol: PROTOCOL.md, "Last Checkpoint File", "JSON checksum".
"""

from __future__ import annotations

import json
from typing import Any

from airflow_delta.core.log.file_names import LAST_CHECKPOINT
from airflow_delta.core.log.json_checksum import CHECKSUM, json_checksum
from airflow_delta.core.storage.log_store import LogStore


def hinted_version(store: LogStore) -> int | None:
    """The version of a checkpoint that was there once; None when the hint is missing, unreadable, or not what was written."""
    try:
        hint: Any = json.loads(store.read(LAST_CHECKPOINT), object_pairs_hook=_without_duplicates)
        version, checksum = hint["version"], hint.get(CHECKSUM)
        if checksum is not None and checksum != json_checksum(hint):
            return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return version if type(version) is int and version >= 0 else None


def _without_duplicates(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members. Raises ``ValueError`` where a name is there twice: such a hint is invalid."""
    document = dict(members)
    if len(document) != len(members):
        raise ValueError("a name is there twice")
    return document
