"""How many bytes the rows of a schema take in memory, more or less, where nobody has counted them."""

from __future__ import annotations

from airflow_delta.core.schema import ArrayType, DataType, DecimalType, MapType, StructType
from airflow_delta.core.schema.data_types import BINARY, BOOLEAN, BYTE, DATE, FLOAT, INTEGER, SHORT, STRING

_WIDTHS: dict[DataType, int] = {BOOLEAN: 1, BYTE: 1, SHORT: 2, INTEGER: 4, DATE: 4, FLOAT: 4}
_WIDTH, _TEXT_WIDTH, _ITEMS = 8, 16, 4
_WIDE_DECIMAL = 18


def row_width(data_type: DataType) -> int:
    """Bytes of a value; of a row for a schema."""
    match data_type:
        case StructType(fields):
            return sum(row_width(field.type) for field in fields) or 1
        case ArrayType(element):
            return _ITEMS * row_width(element)
        case MapType(key, value):
            return _ITEMS * (row_width(key) + row_width(value))
        case DecimalType(precision):
            return _TEXT_WIDTH if precision > _WIDE_DECIMAL else _WIDTH
        case _ if data_type in (STRING, BINARY):
            return _TEXT_WIDTH
        case _:
            return _WIDTHS.get(data_type, _WIDTH)
