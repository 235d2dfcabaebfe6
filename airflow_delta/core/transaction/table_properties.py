"""The table properties that writers and maintenance must honour, read from the metadata's configuration.

Times are milliseconds. A property that cannot be read counts as absent: a table must not become unusable by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_MILLISECONDS = {
    "microsecond": 0.001,
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_NUMBER = re.compile(r"\d{1,18}")  # what 64 bits hold
_SIZE = re.compile(r"(\d{1,15})\s*([kmgt]?)b?")
_SIZE_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_TERM = re.compile(r"(\d{1,18})\s*([a-z]+?)s?(?:\s+|$)")

DEFAULT_CHECKPOINT_INTERVAL = 10
DEFAULT_DELETED_FILE_RETENTION = 604_800_000
DEFAULT_LOG_RETENTION = 2_592_000_000


def checkpoint_interval(configuration: Mapping[str, str]) -> int:
    """A checkpoint is due at each version that this number divides."""
    return _number(configuration.get("delta.checkpointInterval", "")) or DEFAULT_CHECKPOINT_INTERVAL


def deleted_file_retention(configuration: Mapping[str, str]) -> int:
    """How long removed files stay for readers of older versions."""
    retention = interval_milliseconds(configuration.get("delta.deletedFileRetentionDuration", ""))
    return DEFAULT_DELETED_FILE_RETENTION if retention is None else retention


def transaction_retention(configuration: Mapping[str, str]) -> int | None:
    """How long the progress of an application is remembered; None is for ever."""
    return interval_milliseconds(configuration.get("delta.setTransactionRetentionDuration", ""))


def log_retention(configuration: Mapping[str, str]) -> int:
    """How long commits stay for readers of older versions and of the history."""
    retention = interval_milliseconds(configuration.get("delta.logRetentionDuration", ""))
    return DEFAULT_LOG_RETENTION if retention is None else retention


def cleans_up_log(configuration: Mapping[str, str]) -> bool:
    """Whether the log is cleaned up after each automatic checkpoint."""
    return configuration.get("delta.enableExpiredLogCleanup", "").strip().lower() != "false"


def protected_before(configuration: Mapping[str, str]) -> int:
    """Checkpoints before this version go only together, and none may be added there (the feature ``checkpointProtection``)."""
    return _number(configuration.get("delta.requireCheckpointProtectionBeforeVersion", "")) or 0


def target_file_size(configuration: Mapping[str, str]) -> int | None:
    """Bytes that data files should have at most; None where the table does not say."""
    match = _SIZE.fullmatch(configuration.get("delta.targetFileSize", "").strip().lower())
    return int(match[1]) << _SIZE_UNITS[match[2]] or None if match else None


def optimizes_writes(configuration: Mapping[str, str]) -> bool:
    """Whether rows are to be spread over files of a good size before they are written."""
    texts = (configuration.get(f"delta.autoOptimize{name}", "") for name in ("", ".optimizeWrite"))
    return any(text.strip().lower() == "true" for text in texts)


def compacts_after_commits(configuration: Mapping[str, str]) -> bool:
    """Whether small files are to be put together after each commit that leaves many of them."""
    texts = (configuration.get(f"delta.autoOptimize{name}", "") for name in ("", ".autoCompact"))
    return any(text.strip().lower() in {"true", "auto", "legacy"} for text in texts)


def is_append_only(configuration: Mapping[str, str]) -> bool:
    """Whether rows may only be added."""
    return configuration.get("delta.appendOnly", "").strip().lower() == "true"


def interval_milliseconds(text: str) -> int | None:
    """The length of Spark's intervals, such as ``interval 1 week`` or ``2 days 12 hours``; None for any other text."""
    terms = text.strip().lower().removeprefix("interval").strip()
    total, end = 0.0, 0
    while match := _TERM.match(terms, end):
        if match[2] not in _MILLISECONDS:
            return None
        total, end = total + int(match[1]) * _MILLISECONDS[match[2]], match.end()
    return int(total) if terms and end == len(terms) else None


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text.strip()) else None
