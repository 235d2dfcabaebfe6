"""Type widening: which type may replace which without changing existing values.

Protocol: PROTOCOL.md, "Type Widening", "Supported Type Changes".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_delta.core.schema.column_mapping import all_fields
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
    StructType,
)
from airflow_delta.core.schema.schema_json import parse_type

TYPE_CHANGES = "delta.typeChanges"
"""Metadata key of a column: the former types of the column, or of what is inside of it."""

_WIDER: dict[DataType, tuple[DataType, ...]] = {
    BYTE: (SHORT, INTEGER, LONG, DOUBLE),
    SHORT: (INTEGER, LONG, DOUBLE),
    INTEGER: (LONG, DOUBLE),
    FLOAT: (DOUBLE,),
    DATE: (TIMESTAMP_NTZ,),
}
_INTEGER_DIGITS: dict[DataType, int] = {BYTE: 10, SHORT: 10, INTEGER: 10, LONG: 20}


def is_widening(before: DataType, after: DataType) -> bool:
    """Whether a column may change from the one type to the other; false for equal types.

    An integer needs a decimal with at least 10 digits before the point, a long one with 20; a decimal must keep its digits on
    both sides of the point.
    """
    if isinstance(after, DecimalType):
        whole = after.precision - after.scale
        if isinstance(before, DecimalType):
            return before != after and whole >= before.precision - before.scale and after.scale >= before.scale
        return whole >= _INTEGER_DIGITS.get(before, whole + 1)
    return after in _WIDER.get(before, ())


def unknown_changes(schema: StructType) -> Iterator[str]:
    """Type changes of the columns that are not supported here, so that values and bounds of older files cannot be read.

    Protocol: PROTOCOL.md, "Reader Requirements for Type Widening".
    """
    for field in all_fields(schema):
        changes = field.metadata.get(TYPE_CHANGES, [])
        for change in changes if isinstance(changes, list) else [changes]:
            before, after = (_type_of(change, key) for key in ("fromType", "toType"))
            if before is None or after is None:
                yield f"the type change {change!r:.100} of {field.name}"
            elif before != after and not is_widening(before, after):
                yield f"the type change of {field.name} from {before} to {after}"


def _type_of(change: Any, key: str) -> DataType | None:
    try:
        return parse_type(change[key])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
