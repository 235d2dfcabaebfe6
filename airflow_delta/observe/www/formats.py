"""How values are shown on the pages. They come from logs and XComs and may have any type, so nothing here raises."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow_delta.core.foreign_values import json_value, natural_number, printable
from airflow_delta.core.wording import counted as counted  # noqa: PLC0414 - templates find it here

UNKNOWN = "–"  # noqa: RUF001 - an en dash stands for unknown values

_LONGEST = 1_000  # most characters of one text
_KIB = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_THOUSANDS = ((10**12, "tn"), (10**9, "bn"), (10**6, "M"), (10**4, "k"))
_AGES = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_DEC = 10


def text(value: Any) -> str:
    """A string or number as shown on a page; empty for anything else."""
    shown = json_value(value)
    return printable(str(shown))[:_LONGEST] if isinstance(shown, str | int | float) else ""


def number(value: Any) -> str:
    """A count with separators between thousands; any other text unchanged."""
    count = natural_number(value)
    return text(value) if count is None else f"{count:,}"


def short_number(value: Any) -> str:
    """A count in a few characters: 12,345,678 is 12 M."""
    count = natural_number(value)
    if count is None:
        return UNKNOWN
    for scale, unit in _THOUSANDS:
        if count >= scale:
            of_unit = 1_000 if unit == "k" else scale
            return f"{_rounded(count / of_unit)} {unit}"
    return f"{count:,}"


def size(value: Any) -> str:
    """A number of bytes with a unit."""
    count = natural_number(value)
    if count is None:
        return UNKNOWN
    amount, units = float(count), iter(_UNITS)
    unit = next(units)
    while amount >= _KIB and (larger := next(units, None)):
        amount, unit = amount / _KIB, larger
    return f"{count} B" if unit == "B" else f"{_rounded(amount)} {unit}"


def short_size(count: int) -> str:
    """A number of bytes in a few characters: 65,536 is 64K."""
    return size(count).replace(" ", "").removesuffix("iB")


def duration(milliseconds: Any) -> str:
    """A duration in milliseconds, shown in seconds and minutes."""
    count = natural_number(milliseconds)
    if count is None:
        return UNKNOWN
    seconds = count / 1_000
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes:,} min {seconds} s"


def time(timestamp: Any) -> str:
    """A point in time in UTC; empty for an invalid value.

    Args:
        timestamp: Milliseconds since the epoch.
    """
    try:
        return datetime.fromtimestamp(timestamp / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def age(timestamp: Any, now: int) -> str:
    """How long a time was before ``now`` (both in milliseconds since the epoch), in one unit."""
    if natural_number(timestamp) is None:
        return UNKNOWN
    seconds = max(0, now - int(timestamp)) // 1_000
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return "now"


def name_of(uri: str) -> str:
    """The last part of a table's URI, which serves as its name."""
    return uri.rstrip("/").rpartition("/")[2] or uri


def _rounded(amount: float) -> str:
    return f"{amount:.1f}".removesuffix(".0") if amount < _DEC else f"{amount:,.0f}"
