"""Type widening: which type may replace which, so that existing values stay the same.

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
"""Key of a column's metadata: the types that it, or what is inside of it, had before."""

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


def unknown_changes(schema: StructType) -> Iterator[str]:
    """Changes of types that the columns have gone through, and that are not known here: values, and bounds, of older files.

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
