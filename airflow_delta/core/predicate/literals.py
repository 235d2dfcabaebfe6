"""Literals in SQL text: their own type, and their conversion to the type of a column.

A constant is converted to the column's type only if that changes no comparison. Everything else (a string compared to a number,
a number that a cast of the column would round) is left to Spark.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from sqlglot import exp

from airflow_delta.core.predicate.expression import Literal
from airflow_delta.core.schema.data_types import (
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
    VOID,
    DataType,
    DecimalType,
)
from airflow_delta.core.schema.text_values import values_of_texts

Node: TypeAlias = Any
"""A syntax tree; the names of its classes depend on the version of sqlglot."""

ESCAPED = "airflow_delta.escaped"
"""Key in a node's ``meta`` that marks a string written with a backslash, whose meaning depends on Spark's settings."""

_INTEGER_BITS: dict[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
_EXACT_INTEGER_BITS: dict[DataType, int] = {FLOAT: 24, DOUBLE: 53}
_MAX_PRECISION = 38
_MAX_DIGITS_BESIDE_INTEGERS = 18  # besides the 19 digits of a long, Arrow's decimals hold this many after the point

_PLAIN_INTEGER = re.compile(r"0|-?[1-9]\d{0,37}", re.ASCII)
_PLAIN_DECIMAL = re.compile(r"-?\d{1,38}(\.\d{1,38})?", re.ASCII)
_PLAIN_FLOAT = re.compile(_PLAIN_DECIMAL.pattern + r"([eE][+-]?\d{1,3})?|NaN|-?Infinity", re.ASCII)
_PLAIN_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?", re.ASCII)
_ZONED_TIME = re.compile(_PLAIN_TIME.pattern[:-1] + r"(Z|[+-]\d\d:\d\d)", re.ASCII)
_WRITTEN_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

_CAST_TYPES: dict[Any, DataType] = {
    exp.DataType.Type.TINYINT: BYTE,
    exp.DataType.Type.SMALLINT: SHORT,
    exp.DataType.Type.INT: INTEGER,
    exp.DataType.Type.BIGINT: LONG,
    exp.DataType.Type.FLOAT: FLOAT,
    exp.DataType.Type.DOUBLE: DOUBLE,
    exp.DataType.Type.DECIMAL: DecimalType(10, 0),
    exp.DataType.Type.DATE: DATE,
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}


def written_literal(node: Node) -> Literal | None:
    """The constant in a syntax tree; None if it is not constant. Dates and timestamps stay text until the column is known."""
    match node:
        case exp.Paren():
            return written_literal(node.this)
        case exp.Null():
            return Literal(None, VOID)
        case exp.Boolean():
            return Literal(bool(node.this), BOOLEAN)
        case exp.Literal() if node.is_string:
            return None if node.meta.get(ESCAPED) else Literal(node.this, STRING)
        case exp.Literal():
            return _number(node.this)
        case exp.Neg():
            literal = written_literal(node.this)
            is_number = literal is not None and isinstance(literal.value, int | float | Decimal) and literal.type != BOOLEAN
            return Literal(-literal.value, literal.type) if literal is not None and is_number else None
        case exp.Cast():
            return _cast(node)
        case _:
            return None


def beside(literal: Literal, column_type: DataType, time_zone: str) -> Literal | None:
    """The constant in the form in which it is compared with a column of this type; None if only Spark can decide.

    Args:
        literal: As ``written_literal`` returns it; not NULL.
        column_type: The column's type.
        time_zone: Zone of timestamps without one.

    Returns:
        A constant whose Arrow value compares with the column's values as in Spark.
    """
    value, written = literal.value, literal.type
    if column_type in _INTEGER_BITS:
        return _beside_integers(literal, column_type)
    if column_type in _EXACT_INTEGER_BITS:
        return _beside_floats(literal, column_type)
    if isinstance(column_type, DecimalType):
        return _beside_decimals(literal, column_type)
    if column_type in (STRING, BOOLEAN):
        return literal if written == column_type else None
    if column_type == DATE:
        return _parsed(value, DATE) if written in (STRING, DATE) and _PLAIN_DATE.fullmatch(value) else None
    if column_type == TIMESTAMP and written in (STRING, DATE, TIMESTAMP):
        return _instant(value, time_zone)
    in_zone = written in (STRING, DATE, TIMESTAMP_NTZ) or (written, time_zone) == (TIMESTAMP, "UTC")
    if column_type == TIMESTAMP_NTZ and in_zone:
        return _parsed(value, TIMESTAMP_NTZ) if _PLAIN_TIME.fullmatch(value) else None
    return None


def among(literals: Sequence[Literal], column_type: DataType, time_zone: str) -> list[Literal] | None:
    """The constants of ``column IN (...)`` in the column's type, without those that cannot equal any value of the column.

    None if only Spark can decide. Arguments as of ``beside``, except that constants may be NULL.
    """
    if column_type in _INTEGER_BITS and not _are_exact_together(literals):
        return None
    values = [
        Literal(None, column_type) if literal.value is None else _among(literal, column_type, time_zone) for literal in literals
    ]
    return None if True in values else [value for value in values if isinstance(value, Literal)]


def _are_exact_together(literals: Sequence[Literal]) -> bool:
    """Whether integers keep their values in the common type to which Spark converts all of these constants."""
    kinds = {literal.type for literal in literals}
    in_doubles = DOUBLE in kinds or (STRING in kinds and any(isinstance(kind, DecimalType) for kind in kinds))
    plain = [literal.value for literal in literals if literal.type == STRING and _PLAIN_INTEGER.fullmatch(literal.value)]
    exact = [literal.value for literal in literals if isinstance(literal.value, int | Decimal)]
    numbers: list[int | Decimal] = [*map(int, plain), *exact]
    limit = 1 << _EXACT_INTEGER_BITS[DOUBLE]
    return not in_doubles or all(-limit < number < limit for number in numbers)


def _among(literal: Literal, column_type: DataType, time_zone: str) -> Literal | bool:
    """The constant in the column's type; False if no value of the column can equal it; True if only Spark can decide."""
    if literal.type == STRING and column_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return True  # without ANSI mode, Spark compares them as text
    found = beside(literal, column_type, time_zone)
    if found is None:
        return True
    if found.type == column_type:
        return found
    if column_type == FLOAT:
        single = pa.scalar(found.value, pa.float32()).as_py()
        return Literal(single, FLOAT) if single == found.value or math.isnan(single) else False
    if column_type == DOUBLE:
        return Literal(found.value, DOUBLE)  # every float is exactly representable as double
    if isinstance(column_type, DecimalType):
        _, digits, exponent = found.value.normalize().as_tuple()
        scale = max(-int(exponent), 0)
        fits = scale <= column_type.scale and len(digits) + int(exponent) <= column_type.precision - column_type.scale
        return Literal(found.value, column_type) if fits else False
    return False


def _number(text: str) -> Literal | None:
    if not _WRITTEN_NUMBER.fullmatch(text):
        return None
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    value = Decimal(text)
    if "." in text:
        return _decimal_literal(value)
    kinds = (kind for kind in (INTEGER, LONG) if _fits(int(value), kind))
    kind = next(kinds, None)
    return _decimal_literal(value) if kind is None else Literal(int(value), kind)


def _cast(node: Node) -> Literal | None:
    kind = _CAST_TYPES.get(node.to.this)
    inner = written_literal(node.this)
    if kind is None or inner is None or inner.value is None:
        return None
    if isinstance(kind, DecimalType) and node.to.expressions:
        numbers = [parameter.name for parameter in node.to.expressions]
        if not all(number.isdecimal() and len(number) <= 2 for number in numbers):  # noqa: PLR2004 - no precision has more digits
            return None
        precision, scale = map(int, [*numbers, "0"][:2])
        if not scale <= precision <= _MAX_PRECISION or precision == 0:
            return None
        kind = DecimalType(precision, scale)
    value = inner.value
    if kind == DATE:  # Spark ignores the time part of a longer text
        return Literal(value, kind) if inner.type == STRING and _PLAIN_DATE.fullmatch(value) else None
    if kind in (TIMESTAMP, TIMESTAMP_NTZ):
        return Literal(value, kind) if inner.type == STRING else None
    if inner.type == STRING:
        return _parsed(value, kind) if _plain_number_of(kind).fullmatch(value) else None
    if not isinstance(value, int | float | Decimal) or inner.type == BOOLEAN:
        return None
    is_exact = kind in _EXACT_INTEGER_BITS or (math.isfinite(value) and Decimal(value) == int(value))
    return _parsed(str(value), kind) if is_exact else None


def _plain_number_of(kind: DataType) -> re.Pattern[str]:
    """Matches spellings of a number of this type that Arrow and all settings of Spark read alike."""
    if kind in (FLOAT, DOUBLE):
        return _PLAIN_FLOAT
    return _PLAIN_DECIMAL if isinstance(kind, DecimalType) else _PLAIN_INTEGER


def _parsed(text: str, kind: DataType) -> Literal | None:
    try:
        value = values_of_texts(pa.array([text], pa.string()), kind)[0].as_py()
    except (ValueError, ArithmeticError):
        return None
    return None if value is None else Literal(value, kind)


def _decimal_literal(value: Decimal) -> Literal | None:
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale, 1)
    return Literal(value, DecimalType(precision, scale)) if precision <= _MAX_PRECISION else None


def _fits(value: int, kind: DataType) -> bool:
    return -(1 << (_INTEGER_BITS[kind] - 1)) <= value < 1 << (_INTEGER_BITS[kind] - 1)


def _beside_integers(literal: Literal, column_type: DataType) -> Literal | None:
    value = literal.value
    if literal.type == STRING:
        # Without ANSI mode, Spark casts the text to the column's type, and a number that does not fit becomes NULL.
        value = int(value) if _PLAIN_INTEGER.fullmatch(value) and _fits(int(value), column_type) else None
    if isinstance(value, float):
        # Below 2**53, comparing doubles equals comparing exact numbers.
        value = Decimal(value) if math.isfinite(value) and abs(value) < 1 << _EXACT_INTEGER_BITS[DOUBLE] else None
    if literal.type == FLOAT or not isinstance(value, int | Decimal) or literal.type == BOOLEAN:
        return None
    if value != int(value):
        fraction = Decimal(value)
        _, digits, exponent = fraction.as_tuple()
        is_small = max(len(digits), -int(exponent)) <= _MAX_DIGITS_BESIDE_INTEGERS
        return _decimal_literal(fraction) if is_small else None
    # Beyond the range of a long, Spark's analyzer decides without reading rows: TRUE even for NULL.
    return next((Literal(int(value), kind) for kind in (column_type, LONG) if _fits(int(value), kind)), None)


def _beside_floats(literal: Literal, column_type: DataType) -> Literal | None:
    value, written = literal.value, literal.type
    if written in (FLOAT, DOUBLE):
        return literal
    if isinstance(written, DecimalType):
        return Literal(float(value), DOUBLE)
    if written in _INTEGER_BITS and abs(value) <= 1 << _EXACT_INTEGER_BITS[column_type]:
        return Literal(float(value), DOUBLE)
    return None


def _beside_decimals(literal: Literal, column_type: DecimalType) -> Literal | None:
    if literal.type not in _INTEGER_BITS and not isinstance(literal.type, DecimalType):
        return None
    exact = _decimal_literal(Decimal(literal.value))
    if exact is None or not isinstance(exact.type, DecimalType):
        return None
    whole = max(exact.type.precision - exact.type.scale, column_type.precision - column_type.scale)
    return exact if whole + max(exact.type.scale, column_type.scale) <= _MAX_PRECISION else None


def _instant(text: str, time_zone: str) -> Literal | None:
    if _ZONED_TIME.fullmatch(text):
        return _parsed(text, TIMESTAMP)
    naive = _parsed(text, TIMESTAMP_NTZ) if _PLAIN_TIME.fullmatch(text) else None
    if naive is None:
        return None
    try:
        local: Any = naive.value.replace(tzinfo=ZoneInfo(time_zone))
        return Literal(local.astimezone(dt.UTC), TIMESTAMP)
    except (ZoneInfoNotFoundError, ValueError, OverflowError):  # a zone such as +02:00, or a time outside of Python's years
        return None
