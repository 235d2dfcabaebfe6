"""Arrow data as a table's schema wants it: columns by name, types by a closed list of lossless casts.

Where types are equal nothing is copied, so that conforming every batch of a scan costs nothing that can be measured.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_kinds = pa.types


def conform(rows: Rows, target: pa.Schema) -> Rows:
    """The rows with exactly the columns of ``target``: found by name in any case, missing ones (nested too) all NULL.

    Columns that ``target`` does not know are dropped. Nullability is not checked: the schema says what the table promises.

    Args:
        rows: A record batch or a table; dictionaries, views and large types are resolved.
        target: The schema of the table, as ``arrow_schema`` gives it.

    Raises:
        pa.ArrowInvalid: A column that has another type than the table's and no lossless cast to it, or a value that does not
            fit; the text names the column.
    """
    if rows.schema.equals(target):
        return rows
    if not target.names:
        return rows.select([])  # still counts its rows, which one made of no columns does not
    names = match_names(rows.schema.names, target.names)
    columns = [
        pa.nulls(rows.num_rows, field.type) if name is None else _conform_column(rows.column(name), field)
        for name, field in zip(names, target, strict=True)
    ]
    return type(rows).from_arrays(columns, schema=target)


def match_names(available: list[str], wanted: list[str]) -> list[str | None]:
    """For each wanted name the available one: the same, else the first that differs only in case, else None."""
    if set(wanted) <= set(available):
        return list(wanted)
    folded: dict[str, str] = {}
    for name in reversed(available):
        folded[name.casefold()] = name
    exact = set(available)
    return [name if name in exact else folded.get(name.casefold()) for name in wanted]


def conform_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as ``target``, the array itself where its type is equal. Raises as ``conform``."""
    source = array.type
    # Equality of list types ignores the name of their element, and so does everything that reads them.
    if source == target:
        return array
    if isinstance(source, pa.BaseExtensionType):
        return conform_array(array.storage, target)
    if _kinds.is_dictionary(source):
        return conform_array(array.dictionary_decode(), target)
    if _kinds.is_null(source):
        return pa.nulls(len(array), target)
    if _kinds.is_struct(source) and _kinds.is_struct(target):
        return _conform_struct(array, target)
    if _kinds.is_map(source) and _kinds.is_map(target):
        keys, items = conform_array(array.keys, target.key_type), conform_array(array.items, target.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return _with_values(array, target, entries)
    if _is_list(source) and _kinds.is_list(target):
        lists = array if _kinds.is_list(source) else array.cast(pa.list_(source.value_field))
        return _with_values(lists, target, conform_array(lists.values, target.value_type))
    if not _is_lossless(source, target):
        raise pa.ArrowInvalid(f"{source} is not {target}")
    return array.cast(target)


def _conform_column(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        if isinstance(column, pa.ChunkedArray):
            return pa.chunked_array([conform_array(each, field.type) for each in column.chunks], field.type)
        return conform_array(column, field.type)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"column {field.name}: {error}") from error


def _conform_struct(array: pa.StructArray, target: pa.StructType) -> pa.Array:
    fields = list(target)
    names = match_names([each.name for each in array.type], [each.name for each in fields])
    children = [
        pa.nulls(len(array), field.type) if name is None else conform_array(array.field(name), field.type)
        for name, field in zip(names, fields, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _with_values(array: pa.ListArray | pa.MapArray, target: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists over other values: validity and offsets are shared, slices stay slices."""
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def _is_list(source: pa.DataType) -> bool:
    return bool(_kinds.is_list(source) or _kinds.is_large_list(source) or _kinds.is_fixed_size_list(source))


def _is_lossless(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the cast keeps every value or fails: what Parquet stores wider or other engines type otherwise.

    Numbers only grow, except that integers go by value: Parquet has no type below 32 bits, so writers without its
    annotations store a byte as an INT32.
    """
    if _kinds.is_integer(source):
        return _kinds.is_integer(target) or _kinds.is_decimal(target) or _kinds.is_float64(target)
    if _kinds.is_floating(source):
        return _kinds.is_floating(target) and source.bit_width <= target.bit_width
    if _kinds.is_decimal(source):
        return _kinds.is_decimal(target)
    if _kinds.is_timestamp(source) and _kinds.is_timestamp(target):
        # Files that hold UTC without saying so are common (INT96 cannot say it); an instant is never a local time.
        return source.tz is None or target.tz is not None
    if _kinds.is_date(source):
        return _kinds.is_date(target) or (_kinds.is_timestamp(target) and target.tz is None)
    return _is_text_or_bytes(source) and (_kinds.is_string(target) or _kinds.is_binary(target))


def _is_text_or_bytes(source: pa.DataType) -> bool:
    return (
        _kinds.is_string(source)
        or _kinds.is_large_string(source)
        or _kinds.is_string_view(source)
        or _kinds.is_binary(source)
        or _kinds.is_large_binary(source)
        or _kinds.is_binary_view(source)
        or _kinds.is_fixed_size_binary(source)
    )
