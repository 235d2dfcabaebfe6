"""Type widening: which type may replace which, so that existing values stay the same.

Protocol: PROTOCOL.md, "Type Widening", "Supported Type Changes".
"""

from __future__ import annotations

from airflow_delta.core.schema.data_types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)

_WIDER: dict[DataType, tuple[DataType, ...]] = {
    BYTE: (SHORT, INTEGER, LONG, DOUBLE),
    SHORT: (INTEGER, LONG, DOUBLE),
    INTEGER: (LONG, DOUBLE),
    FLOAT: (DOUBLE,),
    DATE: (TIMESTAMP_NTZ,),
}
_INTEGER_DIGITS: dict[DataType, int] = {BYTE: 10, SHORT: 10, INTEGER: 10, LONG: 20}


def is_widening(before: DataType, after: DataType) -> bool:
    """Whether a column of the one type may become a column of the other; not for equal types.

    An integer becomes a decimal with 10 digits before the point, a long one with 20; a decimal keeps at least its digits on
    either side of the point.
    """
    if isinstance(after, DecimalType):
        whole = after.precision - after.scale
        if isinstance(before, DecimalType):
            return before != after and whole >= before.precision - before.scale and after.scale >= before.scale
        return whole >= _INTEGER_DIGITS.get(before, whole + 1)
    return after in _WIDER.get(before, ())
