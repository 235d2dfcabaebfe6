"""Writing ``_last_checkpoint``, the hint that leads readers to a checkpoint.

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
    """Lead readers to the checkpoint of ``hint["version"]``, unless they are led to a newer one already.

    A version with checkpoints of another number of files, too, gets no hint: Delta Kernel takes any of them, and refuses the
    table where the hint means another one.
    """
    version, hinted = hint["version"], hinted_version(store)
    if (hinted or 0) > version:
        return
    if (hinted in (None, version) or "parts" in hint) and _numbers_of_files(store, version) > 1:
        if hinted == version:
            store.delete([LAST_CHECKPOINT])
        return
    hint[CHECKSUM] = json_checksum(hint)
    store.write(LAST_CHECKPOINT, json.dumps(hint, ensure_ascii=False, separators=(",", ":")).encode())


def _numbers_of_files(store: LogStore, version: int) -> int:
    """How many different numbers of files the checkpoints of the version have."""
    return len({len(checkpoint.files) for checkpoint in list_log(store, version).checkpoints if checkpoint.version == version})
