"""Partition values: text in the log, typed everywhere else.

Protocol: PROTOCOL.md, "Partition Value Serialization". A partition value is read from the log, never from a path. NULL, a
    missing key and the empty text all mean NULL. A timestamp without a zone is UTC, whatever session wrote it. An invalid text
    raises an error that names it; Spark reads it as NULL, so that filters lose the rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.errors import InvalidPartitionValueError, UnwritablePartitionValueError
from airflow_delta.core.schema.char_columns import paddings
from airflow_delta.core.schema.column_mapping import physical_name
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
    StructField,
    StructType,
)
from airflow_delta.core.schema.text_values import rounded_decimal, values_of_texts

_PLAIN_FLOAT_RANGE = (1e-3, 1e7)


# -- to the log

_UNREADABLE = (ValueError, ArithmeticError, NotImplementedError)  # NotImplementedError: a cast that Arrow lacks
_FEW_MAPS = 8
"""Up to this many maps, Python is faster than Arrow's kernels: most commits add few files."""


def serialize(value: Any, data_type: DataType, *, column: str = "") -> str | None:
    """The text of a Python value for ``partitionValues``; None for NULL and for empty strings and bytes.

    Args:
        value: As from Arrow's ``as_py``; a datetime without a zone counts as UTC for ``timestamp``.
        data_type: Type of the partition column.
        column: Name of the column, for the error.

    Raises:
        UnwritablePartitionValueError: The value has no valid text, or a column of its type cannot be a partition column.
    """
    if value is None or value in ("", b""):
        return None
    try:
        return _serializer(data_type)(value)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        shown = str(bytes(value) if isinstance(value, bytearray) else value)
        raise UnwritablePartitionValueError(column=column, value=shown, type=str(data_type)) from error


def serialized_values(values: pa.Array | pa.ChunkedArray, data_type: DataType, *, column: str = "") -> pa.Array:
    """``serialize`` for a column (returns strings); each distinct value is converted once. Raises as ``serialize``."""
    distinct = _encoded(values)
    texts = [serialize(_python_value(value, data_type, column), data_type, column=column) for value in distinct.dictionary]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _python_value(value: pa.Scalar, data_type: DataType, column: str) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError) as error:  # years outside of Python's range
        shown = str(value.cast(pa.string()))  # Python has no text for the value, either
        raise UnwritablePartitionValueError(column=column, value=shown, type=str(data_type)) from error


def _serializer(data_type: DataType) -> Callable[[Any], str]:
    match data_type:
        case DecimalType(_, scale):
            return lambda value: format(rounded_decimal(Decimal(value), scale), "f")
        case _ if data_type in _SERIALIZERS:
            return _SERIALIZERS[data_type]
        case _:
            raise TypeError(f"{data_type} cannot partition a table")


def _integer_text(value: Any) -> str:
    return str(int(value))


def _java_text(value: float, digits: str) -> str:
    """A number as Java's ``Double.toString`` writes it, from its shortest digits as written by Python."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - the one test of NaN for every width
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")  # noqa: PLR0124
    if value == 0 or _PLAIN_FLOAT_RANGE[0] <= abs(value) < _PLAIN_FLOAT_RANGE[1]:
        plain = format(Decimal(digits), "f")
        return plain if "." in plain else f"{plain}.0"
    sign, figures, exponent = Decimal(digits).normalize().as_tuple()
    text = "".join(map(str, figures))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{int(exponent) + len(text) - 1}"


def _double_text(value: float) -> str:
    return _java_text(float(value), repr(float(value)))


def _float_text(value: float) -> str:
    single = pa.scalar(float(value), pa.float32())
    return _java_text(single.as_py(), pc.cast(single, pa.string()).as_py())


def _timestamp_text(value: dt.datetime) -> str:
    utc = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return f"{utc.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _timestamp_ntz_text(value: dt.datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if value.microsecond else text


def _date_text(value: dt.date) -> str:
    return value.date().isoformat() if isinstance(value, dt.datetime) else value.isoformat()


_SERIALIZERS: dict[DataType, Callable[[Any], str]] = {
    STRING: str,
    BYTE: _integer_text,
    SHORT: _integer_text,
    INTEGER: _integer_text,
    LONG: _integer_text,
    FLOAT: _float_text,
    DOUBLE: _double_text,
    BOOLEAN: lambda value: "true" if value else "false",
    DATE: _date_text,
    TIMESTAMP: _timestamp_text,
    TIMESTAMP_NTZ: _timestamp_ntz_text,
    BINARY: lambda value: bytes(value).decode(),
}


# -- from the log


def typed_values(texts: pa.Array | pa.ChunkedArray, data_type: DataType, *, column: str = "") -> pa.Array:
    """The typed values of partition texts; each distinct text is parsed once, by Arrow's kernels where possible.

    Args:
        texts: Strings as in the log, NULL included.
        data_type: Type of the partition column.
        column: Name of the column, for the error.

    Raises:
        InvalidPartitionValueError: A text is not a value of the type.
    """
    encoded = _encoded(texts)
    distinct = encoded.dictionary.cast(pa.string())
    distinct = pc.if_else(pc.equal(distinct, ""), pa.scalar(None, pa.string()), distinct)
    try:
        typed = values_of_texts(distinct, data_type)
    except _UNREADABLE as error:
        bad = next((text for text in distinct.to_pylist() if not _is_readable(text, data_type)), str(error))
        raise InvalidPartitionValueError(column=column, value=bad, type=str(data_type)) from error
    return typed.take(encoded.indices)


def partition_arrays(files: pa.Table, fields: Iterable[StructField]) -> dict[str, pa.Array]:
    """The typed partition values of files (map column ``partition_values``, physical names) by column; CHAR is padded.

    Raises as ``typed_values``.
    """
    maps = files["partition_values"]
    return {field.name: partition_column(texts_of_key(maps, physical_name(field)), field) for field in fields}


def partition_column(texts: pa.Array | pa.ChunkedArray, field: StructField) -> pa.Array:
    """``typed_values`` of a partition column; CHAR is padded."""
    values = typed_values(texts, field.type, column=field.name)
    padding = paddings(StructType((field,))).get(field.name)
    return values if padding is None else padding.pad(values)


def texts_of_key(maps: pa.ChunkedArray, key: str) -> pa.ChunkedArray:
    """The text for the key in each map; NULL if it is missing.

    As ``pc.map_lookup``, but ten times as fast if each map has the key exactly once, which is the usual case.
    """
    return pa.chunked_array([_texts_of_key(chunk, key) for chunk in maps.chunks], pa.string())


def _texts_of_key(maps: pa.MapArray, key: str) -> pa.StringArray:
    offsets = maps.offsets
    start, length = (offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()) if len(maps) else (0, 0)
    found = pc.equal(maps.keys.slice(start, length), key)
    owners = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, maps.keys)).filter(found)
    is_once_in_each = len(owners) == len(maps) and pc.all(pc.greater(owners[1:], owners[:-1])).as_py()
    return maps.items.slice(start, length).filter(found) if is_once_in_each else pc.map_lookup(maps, key, "first")


def partition_keys(schema: StructType, partition_columns: Iterable[str]) -> list[str]:
    """The keys of ``partitionValues`` for this schema and these partition columns: their physical names."""
    return [physical_name(field) for name in partition_columns if (field := schema.find(name))]


def with_exact_keys(maps: pa.ChunkedArray, keys: Sequence[str]) -> pa.ChunkedArray:
    """The maps with exactly these keys; missing keys get a null.

    Some writers leave keys of a former partitioning in a file, or omit nulls; some readers then reject the table.

    Protocol: PROTOCOL.md, "Add File and Remove File": a value for each partition column.
    """
    if all(_has_exact_keys(chunk, keys) for chunk in maps.chunks):
        return maps
    return pa.chunked_array([_with_exact_keys(chunk, keys) for chunk in maps.chunks], maps.type)


def _has_exact_keys(maps: pa.MapArray, keys: Sequence[str]) -> bool:
    if len(maps) <= _FEW_MAPS:
        return all(items is not None and sorted(key for key, _ in items) == sorted(keys) for items in maps.to_pylist())
    wanted = pa.array(keys, pa.string())
    counts = pc.subtract(maps.offsets[1:], maps.offsets[:-1])
    is_exact = pc.and_(pc.all(pc.equal(counts, len(wanted)), min_count=0), pc.all(pc.is_in(maps.keys, wanted), min_count=0))
    return bool(is_exact.as_py())


def _with_exact_keys(maps: pa.MapArray, keys: Sequence[str]) -> pa.MapArray:
    rows, width = len(maps), len(keys)
    values = [pc.map_lookup(maps, query_key=key, occurrence="first") for key in keys]
    by_row = pa.array([column * rows + row for row in range(rows) for column in range(width)], pa.int64())
    items = pa.concat_arrays(values).take(by_row) if values else pa.nulls(0, pa.string())
    offsets = pa.array(range(0, rows * width + 1, width) if width else [0] * (rows + 1), pa.int32())
    return pa.MapArray.from_arrays(offsets, pa.array([*keys] * rows, pa.string()), items, mask=maps.is_null())


def _encoded(values: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return whole.dictionary_encode()


def _is_readable(text: str | None, data_type: DataType) -> bool:
    try:
        values_of_texts(pa.array([text], pa.string()), data_type)
    except _UNREADABLE:
        return False
    return True
