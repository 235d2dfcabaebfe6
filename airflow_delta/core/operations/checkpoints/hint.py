"""Writes ``_last_checkpoint``, the hint that points readers to a checkpoint.

Protocol: PROTOCOL.md, "Last Checkpoint File".
"""

from __future__ import annotations

import json
from typing import Any

from airflow_delta.core.log.file_names import LAST_CHECKPOINT
from airflow_delta.core.log.json_checksum import CHECKSUM, json_checksum
from airflow_delta.core.log.last_checkpoint import hinted_version
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.storage.log_store import LogStore


def point_to(store: LogStore, hint: dict[str, Any]) -> None:
    """Point readers to the checkpoint of ``hint["version"]``, unless the hint already names a newer one that exists.

    A version that also has a checkpoint with another number of files gets no hint, and loses an existing one: Delta Kernel may
    pick either checkpoint, and rejects the table if the hint describes the other.
    """
    version, hinted = hint["version"], hinted_version(store)
    if hinted is not None and hinted > version and _numbers_of_files(store, hinted):
        return
    is_older = hinted is not None and hinted < version
    if (not is_older or "parts" in hint) and _numbers_of_files(store, version) > 1:
        if not is_older:
            store.delete([LAST_CHECKPOINT])  # also one that is wrong or unreadable
        return
    hint[CHECKSUM] = json_checksum(hint)
    store.write(LAST_CHECKPOINT, json.dumps(hint, ensure_ascii=False, separators=(",", ":")).encode())


def _numbers_of_files(store: LogStore, version: int) -> int:
    """How many different file counts the checkpoints of this version have."""
    return len({len(checkpoint.files) for checkpoint in list_log(store, version).checkpoints if checkpoint.version == version})
