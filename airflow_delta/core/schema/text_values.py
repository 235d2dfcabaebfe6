"""Values written as text, in partition values, statistics and literals; parsed as Spark casts them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.schema.arrow_conversion import arrow_type
from airflow_delta.core.schema.data_types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)

_SECONDS, _ZONE = r"(:\d\d(?:\.\d+)?)", r"([Zz]|[+-]\d\d(?::?\d\d)?)$"
_ZONED_TIME = _SECONDS + _ZONE
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_LOOSE_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?")
_DIGITS = Context(prec=76, rounding=ROUND_HALF_UP)
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_YEARS_OF_CYCLE, _DAYS_OF_CYCLE = 400, 146_097


def rounded_decimal(value: Decimal, scale: int) -> Decimal:
    """The number with ``scale`` digits after the point, rounded half up. Raises ``ValueError`` for NaN and infinity."""
    if not value.is_finite():
        raise ValueError(f"{value} has no digits")
    return value.quantize(Decimal(1).scaleb(-scale), context=_DIGITS)


def values_of_texts(texts: pa.Array, data_type: DataType) -> pa.Array:
    """Typed values of strings, by Arrow's kernels where possible.

    Raises:
        ValueError: A text is not a value of the type (``pa.ArrowInvalid`` is a subclass), or the type has no text form.
    """
    if data_type == STRING:
        return texts
    if data_type == BINARY:
        return texts.cast(pa.binary())
    trimmed, arrow = pc.utf8_trim_whitespace(texts), arrow_type(data_type)
    if isinstance(data_type, DecimalType):
        # Arrow misreads some numbers with more digits before the point than the type has.
        usual = rf"^[+-]?0*\d{{0,{data_type.precision - data_type.scale}}}(\.\d*)?$"
        return _first_that_can(trimmed, arrow, lambda text: _decimal(text, data_type), usual=usual)
    if data_type == BOOLEAN:
        return _booleans(pc.utf8_lower(trimmed))
    if data_type == DATE:
        return _first_that_can(trimmed, arrow, _days)
    if data_type == TIMESTAMP:
        return _timestamps(trimmed)
    if data_type == TIMESTAMP_NTZ:
        return pc.replace_substring_regex(_times(trimmed), _ZONED_TIME, r"\1").cast(arrow)
    if data_type in (BYTE, SHORT, INTEGER, LONG):
        return _integers(trimmed).cast(arrow)
    if data_type in (FLOAT, DOUBLE):
        return trimmed.cast(arrow)
    raise ValueError(f"{data_type} has no text form")


def _first_that_can(texts: pa.Array, arrow: pa.DataType, parse: Callable[[str], Any], *, usual: str = "") -> pa.Array:
    """Arrow's result if all texts match ``usual`` and the cast succeeds, else Python's, text by text."""
    if pc.all(pc.match_substring_regex(texts, usual)).as_py() is not False:
        with suppress(pa.ArrowInvalid):
            return texts.cast(arrow)
    values = pa.array([None if text is None else parse(text) for text in texts.to_pylist()])
    return values.cast(pa.int32()).cast(arrow) if arrow == pa.date32() else values.cast(arrow)


def _integers(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py():
        raise ValueError("a hexadecimal number, which is one to Arrow and not to Spark")
    # Spark truncates fractions: "1.0" of another writer is 1.
    return pc.replace_substring_regex(texts, r"^\+?(-?\d+)(\.\d*)?$", r"\1")


def _booleans(texts: pa.Array) -> pa.Array:
    true, false = (pc.is_in(texts, pa.array(words)) for words in (_TRUE, _FALSE))
    if pc.any(pc.and_(pc.is_valid(texts), pc.invert(pc.or_(true, false)))).as_py():
        raise ValueError("neither true nor false")
    return pc.if_else(pc.is_valid(texts), true, pa.scalar(None, pa.bool_()))


def _decimal(text: str, data_type: DecimalType) -> Decimal:
    if "_" in text:  # which Python would ignore
        raise ValueError(text)
    try:
        value = rounded_decimal(Decimal(text), data_type.scale)
    except InvalidOperation as error:
        raise ValueError(text) from error
    if len(value.as_tuple().digits) > data_type.precision:
        raise ValueError(text)
    return value


def _days(text: str) -> int:
    """A date as Spark reads it, in days since the epoch: ``yyyy``, ``yyyy-m``, ``yyyy-m-d``, with years of any length."""
    found = _LOOSE_DATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day = int(found[1]), int(found[2] or 1), int(found[3] or 1)
    # Python's calendar ends in year 9999; the Gregorian calendar repeats every 400 years.
    cycles, year_of_cycle = divmod(year - 2000, _YEARS_OF_CYCLE)
    return dt.date(2000 + year_of_cycle, month, day).toordinal() - _EPOCH_ORDINAL + cycles * _DAYS_OF_CYCLE


def _times(texts: pa.Array) -> pa.Array:
    """Timestamps in the form that Arrow's kernel accepts: up to microseconds, with any zone directly after them."""
    texts = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
    texts = pc.replace_substring_regex(texts, _SECONDS + r"\s*(?:UTC|GMT)$", r"\1Z")
    return pc.replace_substring_regex(texts, _SECONDS + r"\s+" + _ZONE, r"\1\2")


def _timestamps(texts: pa.Array) -> pa.Array:
    texts = _times(texts)
    zoned = pc.match_substring_regex(texts, _ZONED_TIME)
    none = pa.scalar(None, pa.string())
    with_zone = pc.if_else(zoned, texts, none).cast(pa.timestamp("us", "UTC"))
    # A text without a zone is read as UTC.
    without_zone = pc.if_else(zoned, none, texts).cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pc.coalesce(with_zone, without_zone)
