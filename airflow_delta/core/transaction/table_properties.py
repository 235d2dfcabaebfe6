"""The table properties that writers and maintenance must honor, read from the metadata's configuration.

Times are milliseconds. An invalid value does not make a table unusable, and never costs rows: an invalid retention counts as
forever, and an invalid switch as its safer setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_delta.core.errors import InvalidTablePropertyError

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS = {"month": 1, "year": 12}
_MOST_MICROSECONDS = (1 << 63) - 1
AN_INTERVAL = "it must be an interval such as '30 days' or 'interval 1 week', without months and years"
"""The end of the error for a text that is not an interval."""

_MOST_SHOWN = 200  # characters of an untrusted text in an error
_NUMBER = re.compile(r"\d{1,18}")  # fits in 64 bits
_SIZE = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?")
_SIZE_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_TERM = re.compile(
    rf"""(?P<sign>[+-]?)\s*
    (?P<whole>\d{{0,18}})(?:(?P<point>\.)(?P<fraction>\d{{0,9}}))?\s+
    (?P<unit>{"|".join((*_MICROSECONDS, *_MONTHS))})s?(?:\s+|$)""",
    re.ASCII | re.VERBOSE,
)

DEFAULT_CHECKPOINT_INTERVAL = 10
DEFAULT_DELETED_FILE_RETENTION = 604_800_000
DEFAULT_LOG_RETENTION = 2_592_000_000
FOREVER = 1 << 62
"""The value of a retention or version that cannot be read: nothing is that old."""

DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
LOG_RETENTION = "delta.logRetentionDuration"


def checkpoint_interval(configuration: Mapping[str, str]) -> int:
    """The number of versions between checkpoints: one is due at each version divisible by it."""
    return _number(configuration.get("delta.checkpointInterval", "")) or DEFAULT_CHECKPOINT_INTERVAL


def deleted_file_retention(configuration: Mapping[str, str]) -> int:
    """How long removed files are kept for readers of older versions, in milliseconds."""
    return _retention(configuration, DELETED_FILE_RETENTION, DEFAULT_DELETED_FILE_RETENTION)


def transaction_retention(configuration: Mapping[str, str]) -> int | None:
    """How long the last transaction of an application is kept, in milliseconds; None is forever."""
    return interval_milliseconds(configuration.get("delta.setTransactionRetentionDuration", ""))


def log_retention(configuration: Mapping[str, str]) -> int:
    """How long commits are kept for readers of older versions and of the history, in milliseconds."""
    return _retention(configuration, LOG_RETENTION, DEFAULT_LOG_RETENTION)


def check_interval(configuration: Mapping[str, str], name: str) -> None:
    """Return if the table does not set this interval, or sets a valid one.

    Raises:
        InvalidTablePropertyError: The interval is invalid, so nothing may be deleted by it.
    """
    if (value := configuration.get(name)) is not None and interval_milliseconds(value) is None:
        raise InvalidTablePropertyError(name=name, value=value[:_MOST_SHOWN], detail=AN_INTERVAL)


def cleans_up_log(configuration: Mapping[str, str]) -> bool:
    """Whether the log is cleaned up after each automatic checkpoint."""
    return configuration.get("delta.enableExpiredLogCleanup", "true").strip().lower() == "true"


def protected_before(configuration: Mapping[str, str]) -> int:
    """Checkpoints before this version go only together, and no more are added (feature ``checkpointProtection``)."""
    version = _number(configuration.get("delta.requireCheckpointProtectionBeforeVersion", "0"))
    return FOREVER if version is None else version


def target_file_size(configuration: Mapping[str, str]) -> int | None:
    """Target size of data files, in bytes; None where the table does not set it."""
    match = _SIZE.fullmatch(configuration.get("delta.targetFileSize", "").strip().lower())
    return int(match[1]) << _SIZE_UNITS[match[2]] or None if match else None


def optimizes_writes(configuration: Mapping[str, str]) -> bool:
    """Whether rows are redistributed before a write, so that files get a suitable size (optimized writes)."""
    texts = (configuration.get(f"delta.autoOptimize{name}", "") for name in ("", ".optimizeWrite"))
    return any(text.strip().lower() == "true" for text in texts)


def compacts_after_commits(configuration: Mapping[str, str]) -> bool:
    """Whether small files are compacted after a commit that leaves many of them (auto compaction)."""
    texts = (configuration.get(f"delta.autoOptimize{name}", "") for name in ("", ".autoCompact"))
    return any(text.strip().lower() in {"true", "auto", "legacy"} for text in texts)


def is_append_only(configuration: Mapping[str, str]) -> bool:
    """Whether the table is append-only: rows may only be added."""
    return configuration.get("delta.appendOnly", "false").strip().lower() != "false"


def interval_milliseconds(text: str) -> int | None:
    """The length in milliseconds of an interval as Spark reads it: ``interval 1 week``, ``+2 days -12 hours 0.5 seconds``.

    None for any other text, and, as in Delta, if it contains months or years, or the sum is negative. Follows
    ``SparkIntervalUtils.stringToInterval`` of Spark and ``DeltaConfigs.isValidIntervalConfigValue`` of Delta Spark.
    """
    terms = text.strip().lower().removeprefix("interval ").strip()
    microseconds = months = end = 0
    while match := _TERM.match(terms, end):
        sign = -1 if match["sign"] == "-" else 1
        has_digits = match["whole"] or match["fraction"] or (match["sign"] and match["point"])
        if not has_digits or (match["point"] and match["unit"] != "second"):
            return None
        whole = sign * int(match["whole"] or 0)
        months += whole * _MONTHS.get(match["unit"], 0)
        microseconds += whole * _MICROSECONDS.get(match["unit"], 0) + sign * int((match["fraction"] or "").ljust(6, "0")[:6])
        end = match.end()
    is_interval = terms and end == len(terms) and not months and 0 <= microseconds <= _MOST_MICROSECONDS
    return microseconds // 1_000 if is_interval else None


def _retention(configuration: Mapping[str, str], name: str, default: int) -> int:
    if (text := configuration.get(name)) is None:
        return default
    retention = interval_milliseconds(text)
    return FOREVER if retention is None else retention


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text.strip()) else None
