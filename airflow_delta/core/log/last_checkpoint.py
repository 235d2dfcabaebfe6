"""The file ``_last_checkpoint``: only a hint of where to begin reading the log.

Protocol: PROTOCOL.md, "Last Checkpoint File", "JSON checksum".
"""

from __future__ import annotations

from typing import Any

from airflow_delta.core.errors import StorageUnavailableError
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.file_names import LAST_CHECKPOINT, MAX_VERSION
from airflow_delta.core.log.json_checksum import CHECKSUM, json_checksum
from airflow_delta.core.storage.log_store import LogStore


def hinted_version(store: LogStore) -> int | None:
    """The version of a checkpoint that existed when the hint was written; None if the hint is missing or invalid.

    Raises:
        StorageUnavailableError: The storage did not answer; falling back to a listing would only wait again.
    """
    try:
        hint: Any = parse_json(store.read(LAST_CHECKPOINT), unique_names=True)
        version, checksum = hint["version"], hint.get(CHECKSUM)
        if checksum is not None and checksum != json_checksum(hint):
            return None
    except StorageUnavailableError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return version if type(version) is int and 0 <= version <= MAX_VERSION else None
