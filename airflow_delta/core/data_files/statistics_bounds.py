"""Bounds as JSON of the log: each value as JSON text, rounded outward if the log is less precise than the column.

A bound that JSON or its readers cannot represent (not a number, a year of five digits) becomes None, and is left out.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from typing import Any

from airflow_delta.core.schema import DataType, DecimalType, PrimitiveType

_EPOCH_DAY = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is written, or not, by the column's type
_ASCII_TIE_BREAKER, _LAST_CHARACTER = "\x7f", "\U0010ffff"
_BMP_END = 0xFFFF

Bounds = tuple[str | None, str | None]


def bounds_text(low: Any, high: Any, data_type: DataType, string_prefix_length: int) -> Bounds:
    """The JSON text of a column's least and greatest value.

    Args:
        low: The minimum as Parquet stores it: days, microseconds, the unscaled value of a decimal as an integer or as
            big-endian bytes, UTF-8.
        high: The maximum, likewise.
        data_type: Type of the column.
        string_prefix_length: Length to which strings are truncated, in UTF-16 code units.

    Returns:
        Two texts, each None if it cannot be represented; both None for types without an order in the log (booleans, binary).
    """
    match data_type:
        case PrimitiveType("byte" | "short" | "integer" | "long"):
            return str(low), str(high)
        case PrimitiveType("float" | "double"):
            return _float_text(low), _float_text(high)
        case DecimalType(_, scale):
            return _decimal_text(unscaled(low), scale), _decimal_text(unscaled(high), scale)
        case PrimitiveType("string"):
            return (
                _string_text(low, lambda text: low_prefix(text, string_prefix_length)),
                _string_text(high, lambda text: high_prefix(text, string_prefix_length)),
            )
        case PrimitiveType("date"):
            return _date_text(low), _date_text(high)
        case PrimitiveType("timestamp"):
            return _timestamp_text(low // 1000, "Z"), _timestamp_text(-(-high // 1000), "Z")
        case PrimitiveType("timestamp_ntz"):
            return _timestamp_text(low // 1000, ""), _timestamp_text(-(-high // 1000), "")
        case _:
            return None, None


def unscaled(stored: int | bytes) -> int:
    """The unscaled value of a decimal that Parquet stores as an integer or as big-endian bytes."""
    return stored if isinstance(stored, int) else int.from_bytes(stored, "big", signed=True)


def low_prefix(text: str, units: int) -> str:
    """The longest prefix of at most ``units`` UTF-16 code units that splits no character; never greater than ``text``."""
    count = 0
    for position, character in enumerate(text):
        count += 2 if ord(character) > _BMP_END else 1
        if count > units:
            return text[:position]
    return text


def high_prefix(text: str, units: int) -> str | None:
    """``text``, or if it is longer than ``units`` code units, a short text that is not less; None if no such text exists.

    The last character of the prefix is replaced by a greater one. If that is impossible, the prefix is extended, up to double
    length.
    """
    prefix = low_prefix(text, units)
    if prefix == text:
        return text
    for position in range(len(prefix), len(low_prefix(text, 2 * units))):
        if text[position] < _ASCII_TIE_BREAKER:
            return text[:position] + _ASCII_TIE_BREAKER
        if text[position] < _LAST_CHARACTER:
            return text[:position] + _LAST_CHARACTER
    return None


def _float_text(value: float) -> str | None:
    # Readers disagree on order and spelling of NaN and infinities, and such bounds would skip no file.
    return repr(value) if math.isfinite(value) else None


def _decimal_text(digits: int, scale: int) -> str:
    if scale <= 0:
        return str(digits * 10**-scale)
    text = str(abs(digits)).zfill(scale + 1)
    return f"{'-' if digits < 0 else ''}{text[:-scale]}.{text[-scale:]}"


def _string_text(stored: bytes, prefix: Callable[[str], str | None]) -> str | None:
    try:
        text = prefix(stored.decode())
    except UnicodeDecodeError:  # a writer truncated its own statistics inside a character
        return None
    return None if text is None else json.dumps(text, ensure_ascii=False)


def _date_text(days: int) -> str | None:
    try:
        return f'"{(_EPOCH_DAY + dt.timedelta(days=days)).isoformat()}"'
    except OverflowError:
        return None


def _timestamp_text(milliseconds: int, zone: str) -> str | None:
    try:
        return f'"{(_EPOCH + dt.timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")}{zone}"'
    except OverflowError:
        return None
