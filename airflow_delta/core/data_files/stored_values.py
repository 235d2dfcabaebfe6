"""Values of a table's column in the exact form that a data file stores, for lookups in the file's Bloom filters.

Only for types in which equal values have equal bits, and that the file's types represent unambiguously. Everything else has no
stored form here: floats (0.0 and -0.0), INT96, timestamps of another unit, decimals of another scale, unsigned integers,
strings with a collation, and CHAR, which readers pad.

Specification: apache/parquet-format, Encodings.md, "Plain encoding"; LogicalTypes.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_delta.core.schema import DecimalType, StructField, arrow_type
from airflow_delta.core.schema.char_columns import has_char
from airflow_delta.core.schema.data_types import BINARY, DATE, INTEGERS, LONG, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType

_COLLATIONS = "__COLLATIONS"
_MOST_DIGITS_OF_LONG = 18
_DECIMAL_BYTES = 16


class StoredType(NamedTuple):
    """The type of a column in a Parquet file.

    Attributes:
        physical: Parquet's name of the physical type.
        logical: The logical type annotation, as JSON.
        length: Length in bytes of a ``FIXED_LEN_BYTE_ARRAY`` value.
    """

    physical: str
    logical: str
    length: int

    @classmethod
    def of(cls, column: pq.ColumnSchema) -> StoredType:
        """The type of a column."""
        return cls(column.physical_type, column.logical_type.to_json(), column.length or 0)


def has_stored_form(field: StructField) -> bool:
    """Whether values of the column can be looked up in filters at all."""
    kind = field.type
    is_simple = kind in (*INTEGERS, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ) or isinstance(kind, DecimalType)
    return is_simple and not has_char(field) and _COLLATIONS not in field.metadata


def looked_up_type(kind: DataType) -> pa.DataType:
    """The Arrow type in which values of a column are looked up: int64 for all integers."""
    return arrow_type(LONG if kind in INTEGERS else kind)


def stored_values(values: pa.Array, kind: DataType, stored: StoredType) -> pa.Array | None:
    """The values as such a column stores them, for ``xx_hash.hashes``; None if that is unknown.

    Args:
        values: Values of type ``looked_up_type``.
        kind: The column's type in the table.
        stored: The column's type in the file.

    Returns:
        ``uint32``, ``uint64`` or ``binary``; NULL for values that such a column cannot hold.
    """
    logical = json.loads(stored.logical)
    name = logical.get("Type")
    if kind in (STRING, BINARY) and stored.physical == "BYTE_ARRAY" and name in ("String", "None"):
        return values.cast(pa.binary())
    if kind in INTEGERS and (name == "None" or (name == "Int" and logical.get("isSigned") is True)):
        return _integers(values, stored.physical)
    if kind == DATE and stored.physical == "INT32" and name == "Date":
        return values.view(pa.uint32())
    if kind in (TIMESTAMP, TIMESTAMP_NTZ) and stored.physical == "INT64" and name == "Timestamp":
        is_same = logical.get("timeUnit") == "microseconds" and (kind == TIMESTAMP or logical.get("isAdjustedToUTC") is False)
        return values.view(pa.uint64()) if is_same else None
    if isinstance(kind, DecimalType) and name == "Decimal":
        return _decimals(values, kind, stored, logical)
    return None


def _integers(values: pa.Array, physical: str) -> pa.Array | None:
    if physical == "INT64":
        return values.view(pa.uint64())
    if physical != "INT32":
        return None
    fits = pc.equal(values, pc.cast(values, pa.int32(), safe=False).cast(pa.int64()))
    return pc.if_else(fits, values, None).cast(pa.int32()).view(pa.uint32())


def _decimals(values: pa.Array, kind: DecimalType, stored: StoredType, logical: Mapping[str, Any]) -> pa.Array | None:
    if (logical.get("precision"), logical.get("scale")) != (kind.precision, kind.scale):
        return None  # for example, widened since
    if stored.physical in ("INT32", "INT64") and kind.precision <= _MOST_DIGITS_OF_LONG:
        unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), values.buffers(), offset=values.offset)
        return _integers(unscaled.cast(pa.int64()), stored.physical)
    if stored.physical == "FIXED_LEN_BYTE_ARRAY" and _least_bytes(kind.precision) <= stored.length <= _DECIMAL_BYTES:
        little = pa.Array.from_buffers(pa.binary(_DECIMAL_BYTES), len(values), values.buffers(), offset=values.offset)
        return pc.binary_slice(pc.binary_reverse(little.cast(pa.binary())), _DECIMAL_BYTES - stored.length, _DECIMAL_BYTES)
    return None


def _least_bytes(precision: int) -> int:
    """Bytes needed for every number with this many digits, and its sign."""
    return -(-(int(10**precision - 1).bit_length() + 1) // 8)
